import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { HttpConnections, NoResponse } from '../../../src/sdk/index.js';
import { openssl, selfSigned } from '../../fixtures/self-signed.js';

const servers: Server[] = [];

async function listening(server: Server): Promise<number> {
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

async function failure(url: string): Promise<NoResponse> {
  const http = new HttpConnections(new URL(url), { connections: 1, connectMs: 5000 });
  try {
    await http.send({ method: 'GET', path: '/secret-path?token=secret' });
  } catch (error) {
    expect(error).toBeInstanceOf(NoResponse);
    return error as NoResponse;
  } finally {
    await http.close();
  }
  throw new Error('there was a response');
}

describe('a request without a response', () => {
  it('names the host and the reason of the system', async () => {
    const port = await listening(createServer((_, response) => response.destroy()));
    expect(await failure(`http://127.0.0.1:${port}`)).toMatchObject({
      message: `no response from 127.0.0.1:${port} (UND_ERR_SOCKET)`,
      code: 'UND_ERR_SOCKET',
    });
  });

  it('names the proxy that refuses it, without its login', async () => {
    vi.stubEnv('NO_PROXY', '');
    const proxy = createServer().on('connect', (_, socket) => socket.end('HTTP/1.1 403 Forbidden\r\n\r\n'));
    const port = await listening(proxy);
    vi.stubEnv('HTTPS_PROXY', `http://me:secret@127.0.0.1:${port}`);
    const { message, code } = await failure('https://hooks.example');
    expect(message).toBe(`the proxy 127.0.0.1:${port} answers 403 to CONNECT hooks.example:443`);
    expect(code).toBe('EPROXY');
  });

  it.skipIf(!openssl)('has the code of TLS if the certificate is of an unknown authority', async () => {
    const port = await listening(createTlsServer(selfSigned(), (_, response) => response.end()));
    expect((await failure(`https://127.0.0.1:${port}`)).code).toMatch(/SELF_SIGNED|UNABLE_TO_/);
  });
});

describe('an exchange', () => {
  const asked = { method: 'GET', path: '/' } as const;
  const to = (port: number, maxBytes?: number) =>
    new HttpConnections(new URL(`http://127.0.0.1:${port}`), { connections: 1, connectMs: 5000, maxBytes });

  it('ends at its time and when its signal aborts, also while it waits for the connection of another', async () => {
    const http = to(await listening(createServer(() => undefined)));
    const stop = new AbortController();
    const first = http.send(asked, undefined, 200);
    const second = http.send(asked, stop.signal);
    stop.abort(new Error('stopped'));
    await expect(second).rejects.toThrow('stopped');
    await expect(first).rejects.toThrow(/^no response from 127\.0\.0\.1:\d+ within 0\.2 s$/);
    await http.close();
  });

  it('reads no more than the most bytes, and then sends the next request', async () => {
    let responses = 0;
    const server = createServer((_, response) => {
      responses += 1;
      response.writeHead(responses === 1 ? 200 : 201);
      if (responses === 1) response.write('x'.repeat(100));
      else response.end('ok');
    });
    const http = to(await listening(server), 10);
    expect(await http.send(asked)).toMatchObject({ status: 200, body: 'x'.repeat(10), isCut: true });
    expect(await http.send(asked)).toMatchObject({ status: 201, body: 'ok', isCut: false });
    await http.close();
  });
});

import { readdir } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Receiver } from '../fixtures/receiver.js';
import { Workspace } from '../fixtures/workspace.js';

const login = `Basic ${Buffer.from('me:s3cret-of-proxy').toString('base64')}`;

/** A proxy that asks for a login, and leads every host of the domain `inside.test` to this machine. */
class CountingProxy {
  readonly tunnels: string[] = [];
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    server.on('connect', ({ url = '', headers }, socket) => {
      if (headers['proxy-authorization'] !== login) return void socket.end('HTTP/1.1 407 No\r\n\r\n');
      this.tunnels.push(url);
      const [host = '', port] = url.split(':');
      if (!host.endsWith('inside.test')) return void socket.end('HTTP/1.1 502 No\r\n\r\n');
      const there = connect(Number(port), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        there.pipe(socket).pipe(there);
      });
      there.on('error', () => socket.destroy());
      socket.on('error', () => there.destroy());
    });
  }

  static async open(): Promise<CountingProxy> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new CountingProxy(server);
  }

  url(user = 'me:s3cret-of-proxy@'): string {
    return `http://${user}127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

let space: Workspace;
let proxy: CountingProxy;
let receiver: Receiver;
beforeAll(async () => {
  [space, proxy, receiver] = await Promise.all([
    Workspace.open({ profiles: 30 }),
    CountingProxy.open(),
    Receiver.open(),
  ]);
  const { port } = new URL(space.service.url);
  await space.configure('job', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }], {
    service: { base_url: `http://service.inside.test:${port}`, retry: { max_attempts: 2, max_delay_ms: 50 } },
    job: {
      destinations: [
        {
          name: 'hook',
          connector: 'webhook',
          url: `http://hook.inside.test:${receiver.port}/in`,
          signing_secret: 'x'.repeat(32),
        },
      ],
    },
  });
});
beforeEach(() => {
  proxy.tunnels.length = 0;
});
afterAll(async () => {
  proxy.close();
  await receiver.close();
  await space.close();
});

const everything = async () => (await readdir(join(space.folder, 'data'), { recursive: true })).join('\n');

describe('a proxy in the environment', () => {
  it('carries the requests to the service and to a webhook; names are resolved there', async () => {
    const { code, report, stderr } = await space.run('job', [], { HTTP_PROXY: proxy.url() });
    expect([code, stderr, report.jobs[0]?.streams[0]?.rows]).toEqual([0, '', 30]);
    const { port } = new URL(space.service.url);
    expect(new Set(proxy.tunnels)).toEqual(
      new Set([`service.inside.test:${port}`, `hook.inside.test:${receiver.port}`]),
    );
    expect(receiver.received.length).toBeGreaterThan(0);
    expect(await everything()).not.toContain('s3cret-of-proxy');
  });

  it('is passed by for hosts of NO_PROXY, which then are looked for directly', async () => {
    const { code, stdout } = await space.cdsync(['check', 'job.json'], {
      http_proxy: proxy.url(),
      no_proxy: '.inside.test',
    });
    expect(code).toBe(1);
    expect(stdout).toContain('there is no such host');
    expect(proxy.tunnels).toEqual([]);
  });

  it('that does not know the login, or is not there, is told without its password', async () => {
    const wrong = await space.cdsync(['check', 'job.json'], { HTTP_PROXY: proxy.url('me:another-secret@') });
    expect([wrong.code, wrong.stdout]).toEqual([
      1,
      expect.stringMatching(/the proxy 127\.0\.0\.1:\d+ answers 407 .*\[proxy_login\]/),
    ]);
    const absent = await space.cdsync(['check', 'job.json', '--verbose'], {
      HTTP_PROXY: 'http://me:another-secret@127.0.0.1:1',
    });
    expect(absent.stdout).toMatch(/the proxy 127\.0\.0\.1:1 gives no connection \(ECONNREFUSED\).*\[proxy_failed\]/);
    for (const { stdout, stderr } of [wrong, absent]) expect(stdout + stderr).not.toContain('another-secret');
  });
});

import { readdir, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:tls';
import { ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ObjectStore } from '../fixtures/object-store.js';
import { openssl, selfSigned } from '../fixtures/self-signed.js';
import { Receiver } from '../fixtures/webhook-server.js';
import { ended, Workspace } from '../fixtures/workspace.js';

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

/** Terminates TLS, and forwards the decrypted bytes to a port of this machine. */
class TlsFront {
  readonly #server: TlsServer;

  private constructor(server: TlsServer) {
    this.#server = server;
  }

  static async open(to: number, certificate: { key: Buffer; cert: Buffer }): Promise<TlsFront> {
    const server = createTlsServer(certificate, (socket) => {
      const there = connect(to, '127.0.0.1');
      there.pipe(socket).pipe(there);
      there.on('error', () => socket.destroy());
      socket.on('error', () => there.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new TlsFront(server);
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
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
    service: {
      base_url: `http://service.inside.test:${port}`,
      allow_http: true,
      retry: { patience: '1s', max_delay_ms: 50 },
    },
    job: {
      destinations: [
        {
          name: 'hook',
          connector: 'http',
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

  it('that does not know the login, or is not there, is reported without its password', async () => {
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

describe.skipIf(!openssl)('a tunnel of the proxy (skipped: openssl is not installed)', () => {
  const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
  let store: ObjectStore;
  let fronts: TlsFront[];
  let authority: string;
  beforeAll(async () => {
    store = await ObjectStore.open();
    const certificate = selfSigned('service.inside.test', 'hook.inside.test', 'store.inside.test');
    authority = join(space.folder, 'authority.pem');
    await writeFile(authority, certificate.cert);
    const ports = [space.service.url, `http://x:${receiver.port}`, store.url].map((url) => Number(new URL(url).port));
    fronts = await Promise.all(ports.map((port) => TlsFront.open(port, certificate)));
  });
  afterAll(async () => {
    for (const front of fronts) front.close();
    await store.close();
  });

  const [service, hook, objects] = [0, 1, 2].map((index) => () => fronts[index]?.port);

  /** Runs the program in its own process: Node reads the authorities of NODE_EXTRA_CA_CERTS once, at its start. */
  async function run(name: string, destinations: readonly Record<string, unknown>[], env: Record<string, string> = {}) {
    await space.configure(name, [members], {
      service: { base_url: `https://service.inside.test:${service?.()}`, retry: { patience: '1s', max_delay_ms: 50 } },
      job: { destinations },
    });
    const child = space.spawn(['run', `${name}.json`, '--json'], {
      HTTPS_PROXY: proxy.url(),
      NODE_EXTRA_CA_CERTS: authority,
      ...env,
    });
    const { code, stdout, stderr } = await ended(child);
    return { code, stderr, job: JSON.parse(stdout).jobs[0] };
  }

  it('carries https to the service, with events back into it, and to a webhook, each encrypted to its end', async () => {
    const events = {
      name: 'events',
      connector: 'event_stream',
      stream_id: 'evs-1',
      streams: ['members'],
      body: {
        event_id: '{{_id}}',
        event_type: 'loyalty',
        keys: { email: '{{email}}' },
        attributes: { city: '{{city}}' },
      },
    };
    const webhook = {
      name: 'hook',
      connector: 'http',
      url: `https://hook.inside.test:${hook?.()}/in?key=secret-of-query`,
      tls: { ca_file: './authority.pem' },
      signing_secret: 'x'.repeat(32),
    };
    const { code, stderr, job } = await run('tls', [events, webhook]);
    expect([code, stderr.replaceAll(/^.*event.*$\n?/gm, '')]).toEqual([0, expect.not.stringContaining('error')]);
    expect(
      job.destinations.map(({ name, status, rows }: { name: string; status: string; rows: number }) => [
        name,
        status,
        rows,
      ]),
    ).toEqual([
      ['events', 'ok', 30],
      ['hook', 'ok', 30],
    ]);
    expect(new Set(proxy.tunnels)).toEqual(
      new Set([`service.inside.test:${service?.()}`, `hook.inside.test:${hook?.()}`]),
    );
  });

  it('carries an object store over http and https, and passes it by for hosts of NO_PROXY', async () => {
    const client = store.client();
    await store.createBucket('proxied');
    const place = (name: string, endpoint: string) => ({
      name,
      connector: 'files',
      url: `s3://proxied/${name}`,
      endpoint,
      format: 'csv',
      access_key_id: 'AKIDEXAMPLE',
      secret_access_key: 'a-secret-of-the-test',
    });
    const plain = `http://store.inside.test:${new URL(store.url).port}`;
    const encrypted = `https://store.inside.test:${objects?.()}`;
    const { code, job } = await run('objects', [place('plain', plain), place('encrypted', encrypted)], {
      HTTP_PROXY: proxy.url(),
    });
    expect([
      code,
      job.destinations.map(({ status, error }: { status: string; error: unknown }) => [status, error]),
    ]).toEqual([
      0,
      [
        ['ok', null],
        ['ok', null],
      ],
    ]);
    expect(new Set(proxy.tunnels)).toEqual(
      new Set([`service.inside.test:${service?.()}`, new URL(plain).host, new URL(encrypted).host]),
    );
    for (const prefix of ['plain/', 'encrypted/']) {
      const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: 'proxied', Prefix: prefix }));
      expect(Contents.some(({ Key }) => Key?.endsWith('.csv'))).toBe(true);
    }
    proxy.tunnels.length = 0;
    const direct = await run('passed', [place('passed', store.url)], { HTTP_PROXY: proxy.url('me:wrong-secret@') });
    expect([direct.code, proxy.tunnels.some((url) => url.includes('127.0.0.1'))]).toEqual([0, false]);
    const absent = await run('absent', [place('absent', plain)], { HTTP_PROXY: 'http://me:wrong-secret@127.0.0.1:1' });
    expect(absent.job.destinations[0]).toMatchObject({
      status: 'failed',
      error: { message: expect.stringMatching(/the proxy 127\.0\.0\.1:1 gives no connection/) },
    });
    expect(JSON.stringify(absent)).not.toContain('wrong-secret');
  });
});

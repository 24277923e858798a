import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import clickhouse from '../../../connectors/clickhouse/index.js';
import http from '../../../connectors/http/index.js';
import mysql from '../../../connectors/mysql/index.js';
import postgres from '../../../connectors/postgres/index.js';
import { type DestinationContext, map } from '../../../src/sdk/index.js';
import { LoadDriver } from '../../fixtures/load-driver.js';
import { MariadbServer, mariadbIsInstalled } from '../../fixtures/mariadb.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { openssl, selfSigned } from '../../fixtures/self-signed.js';

/** An address of this machine that other machines could reach: a connection to it is one to another machine. */
const outside = Object.values(networkInterfaces())
  .flatMap((each) => each ?? [])
  .find(({ internal, family }) => !internal && family === 'IPv4')?.address;
if (outside === undefined)
  process.stderr.write('\n*** NOT RUN: TLS to another machine. This one has no address ***\n\n');

/** Something that listens at the outside address, keeps every byte, and responses or passes on. */
class Listener {
  readonly received: Buffer[] = [];
  connections = 0;
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(respond: (socket: Socket, first: boolean) => void): Promise<Listener> {
    const server = createServer();
    const listener = new Listener(server);
    server.on('connection', (socket) => {
      listener.connections += 1;
      socket.on('error', () => undefined);
      respond(socket, true);
      socket.on('data', (bytes: Buffer) => {
        listener.received.push(bytes);
        respond(socket, false);
      });
    });
    server.listen(0, outside);
    await once(server, 'listening');
    return listener;
  }

  static passingOn(port: number): Promise<Listener> {
    return Listener.open((socket, first) => {
      if (!first) return;
      const server = connect(port, '127.0.0.1');
      server.on('error', () => socket.destroy());
      socket.on('close', () => server.destroy());
      socket.pipe(server).pipe(socket);
    });
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.received);
  }

  async close(): Promise<void> {
    this.#server.close();
    await once(this.#server, 'close');
  }
}

const opened: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of opened.splice(0).reverse()) await each.close();
});

function keep<T extends { close(): Promise<void> }>(each: T): T {
  opened.push(each);
  return each;
}

// biome-ignore lint/suspicious/noExplicitAny: any connector, whatever its options are.
async function attempt(connector: any, options: Readonly<Record<string, unknown>>): Promise<unknown> {
  const driver = keep(await LoadDriver.open(connector, options));
  return driver
    .with(async (destination) => destination.describe('t'))
    .then(
      () => undefined,
      (error: unknown) => error,
    );
}

const password = 'geheim-passwort';

describe.runIf(outside)('a password to another machine', () => {
  it('is not sent to a PostgreSQL that does not encrypt', async () => {
    const listener = keep(await Listener.open((socket, first) => (first ? undefined : socket.write('N'))));
    for (const more of ['', '?sslmode=prefer', '?sslmode=allow', '?sslmode=require', '?sslmode=no-verify']) {
      const url = `postgres://loader:${password}@${outside}:${listener.port}/crm${more}`;
      const error = await attempt(postgres, { url });
      expect(error).toMatchObject({ code: 'destination_login', hint: expect.stringContaining('`tls: off`') });
    }
    expect(listener.connections).toBe(5);
    // A request for TLS has 8 bytes, and nothing follows it.
    expect(listener.bytes.length).toBe(5 * 8);
  });

  it('is not sent although the URL of PostgreSQL says sslmode=disable: nothing connects', async () => {
    const listener = keep(await Listener.open(() => undefined));
    for (const more of ['sslmode=disable', 'ssl=0', 'ssl=false']) {
      const error = await attempt(postgres, {
        url: `postgres://loader@${outside}:${listener.port}/crm?${more}`,
        password,
      });
      expect(error).toMatchObject({
        code: 'destination_plaintext',
        kind: 'configuration',
        hint: expect.stringContaining('`tls: off`'),
      });
      expect(String((error as Error).message)).not.toContain(password);
    }
    expect(listener.connections).toBe(0);
  });

  it('is not sent to a MySQL that does not encrypt', async () => {
    // The greeting of a server without the capability SSL.
    const body = Buffer.from(
      '0a352e372e3000010000000102030405060708 00 f7f7 21 0200 0000 15 00000000000000000000 0102030405060708090a0b0c 00'.replaceAll(
        ' ',
        '',
      ) + Buffer.from('mysql_native_password\0').toString('hex'),
      'hex',
    );
    const greeting = Buffer.concat([Buffer.from([body.length, 0, 0, 0]), body]);
    const listener = keep(await Listener.open((socket, first) => (first ? socket.write(greeting) : undefined)));
    const error = await attempt(mysql, { url: `mysql://loader:${password}@${outside}:${listener.port}/crm` });
    expect(error).toMatchObject({ code: 'destination_login', hint: expect.stringContaining('`tls: off`') });
    expect(listener.connections).toBe(1);
    expect(listener.bytes.length).toBe(0);
  });

  it('is not sent to a ClickHouse over http, unless the job allows it', async () => {
    const listener = keep(
      await Listener.open((socket, first) =>
        first ? undefined : socket.end('HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n'),
      ),
    );
    const options = { url: `http://${outside}:${listener.port}`, password };
    expect(await attempt(clickhouse, options)).toMatchObject({
      code: 'destination_plaintext',
      hint: expect.stringContaining('`allow_http: true`'),
    });
    expect(listener.connections).toBe(0);
    expect(await attempt(clickhouse, { ...options, allow_http: true })).toBeInstanceOf(Error);
    expect(listener.connections).toBeGreaterThan(0);
  });

  it.each([
    ['headers', '', { headers: { authorization: 'Bearer geheim' } }],
    ['a login', 'loader:geheim@', {}],
    ['a query', '', { path: '/?token=geheim' }],
  ] as [string, string, { path?: string; headers?: object }][])(
    'is not sent to an API over http: %s',
    async (_, login, { path = '/', ...more }) => {
      const listener = keep(await Listener.open(() => undefined));
      const open = (extra: object, host = `${outside}`) =>
        http.open({
          destination: 'target',
          job: 'nightly',
          options: map(http.options).parse({
            url: `http://${login}${host}:${listener.port}${path}`,
            ...more,
            ...extra,
          }),
          folder: tmpdir(),
          keptFolder: tmpdir(),
          service: { sendEvent: () => Promise.reject(new Error('no business with the service')) },
          signal: new AbortController().signal,
          notice: () => undefined,
        } as DestinationContext<typeof http.options>);
      await expect(open({})).rejects.toMatchObject({ code: 'destination_plaintext' });
      await (await open({ allow_http: true })).close();
      await (await open({}, '127.0.0.1')).close();
      expect(listener.connections).toBe(0);
    },
  );
});

describe.runIf(openssl)('a real PostgreSQL with a certificate of a private authority', () => {
  let server: PostgresServer;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cdsync-tls-'));
    const { key, cert } = selfSigned();
    await writeFile(join(folder, 'cert.pem'), cert);
    server = await PostgresServer.start('cdsync-postgres-tls-', { key, cert });
  }, 120_000);
  afterAll(async () => {
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  const encrypted = async () => {
    const rows = await server.query(
      "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'cdsync%'",
    );
    return rows.map(({ ssl }) => ssl);
  };
  const url = (more: string, host = 'localhost', port = server.port) =>
    server.url(port).replace('127.0.0.1', host) + more;

  it('is loaded over TLS if the URL names the authority', async () => {
    const driver = keep(
      await LoadDriver.open(postgres, {
        url: url(`?sslrootcert=${join(folder, 'cert.pem')}`),
        tls: 'verify',
      }),
    );
    await driver.with(async () => expect(await encrypted()).toEqual([true]));
  });

  it('is not loaded, and gets no password, if no one trusts its certificate or the certificate is for another name', async () => {
    for (const [host, more] of [
      ['localhost', '?sslmode=verify-full'],
      ['localhost', '?sslmode=require'],
      ['127.0.0.1', `?sslmode=verify-full&sslrootcert=${join(folder, 'cert.pem')}`],
    ] as const)
      expect(await attempt(postgres, { url: url(more, host) })).toMatchObject({
        code: 'destination_login',
        message: expect.stringContaining('no encrypted connection'),
      });
  });

  it('is loaded without a check of the certificate with tls: required', async () => {
    const driver = keep(await LoadDriver.open(postgres, { url: url(''), tls: 'required' }));
    await driver.with(async () => expect(await encrypted()).toEqual([true]));
  });

  it('is loaded without encryption from this machine, as before', async () => {
    const driver = keep(await LoadDriver.open(postgres, { url: url('?sslmode=disable') }));
    await driver.with(async () => expect(await encrypted()).toEqual([false]));
  });

  it.runIf(outside)(
    'at another address: refused by default, loaded with tls: required, and with tls: off',
    async () => {
      const listener = keep(await Listener.passingOn(server.port));
      const at = (more = '') => url(more, outside, listener.port);
      expect(await attempt(postgres, { url: at() })).toMatchObject({ code: 'destination_login' });
      expect(await attempt(postgres, { url: at(), tls: 'required' })).toBeUndefined();
      expect(listener.bytes.includes('SCRAM-SHA-256')).toBe(false);
      expect(await attempt(postgres, { url: at('?sslmode=disable'), tls: 'off' })).toBeUndefined();
      expect(listener.bytes.includes('owner')).toBe(true);
    },
  );
});

describe.runIf(openssl && mariadbIsInstalled())('a real MariaDB with its own certificate', () => {
  let server: MariadbServer;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cdsync-tls-'));
    const { key, cert } = selfSigned();
    await writeFile(join(folder, 'cert.pem'), cert);
    await writeFile(join(folder, 'key.pem'), key);
    server = await MariadbServer.start([
      `--ssl-cert=${join(folder, 'cert.pem')}`,
      `--ssl-key=${join(folder, 'key.pem')}`,
    ]);
  }, 120_000);
  afterAll(async () => {
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  it.runIf(outside)('at another address: refused by default, loaded with tls: required', async () => {
    const place = keep(await server.place());
    const listener = keep(await Listener.passingOn(server.port));
    const at = String(place.options.url).replace(/127\.0\.0\.1:\d+/, `${outside}:${listener.port}`);
    expect(await attempt(mysql, { url: at })).toMatchObject({
      code: 'destination_login',
      message: expect.stringContaining('no encrypted connection'),
    });
    // Of the password's hash and even of the user's name, nothing has left.
    expect(listener.bytes.includes('loader')).toBe(false);
    expect(await attempt(mysql, { url: at, tls: 'required' })).toBeUndefined();
    expect(listener.bytes.includes('loader')).toBe(false);
    expect(await attempt(mysql, { url: at, tls: 'off' })).toBeUndefined();
    expect(listener.bytes.includes('loader')).toBe(true);
  });
});

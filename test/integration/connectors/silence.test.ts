import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RestCatalog } from '../../../connectors/iceberg/catalog.js';
import { Session as MysqlSession } from '../../../connectors/mysql/session.js';
import { Secret } from '../../../src/core/secret.js';
import { AzureStore } from '../../../src/sdk/azure/azure-store.js';
import { PostgresSession } from '../../../src/sdk/postgres/session.js';
import { S3Store } from '../../../src/sdk/s3/s3-store.js';
import { CuttingProxy } from '../../fixtures/cutting-proxy.js';
import { MariadbServer, mariadbIsInstalled } from '../../fixtures/mariadb.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';

const hasMariadb = mariadbIsInstalled();
const context = { destination: 'warehouse', job: 'nightly', notice: () => undefined } as const;

let postgres: PostgresServer;
let mariadb: MariadbServer;
const proxies: CuttingProxy[] = [];
beforeAll(async () => {
  postgres = await PostgresServer.start();
  if (hasMariadb) mariadb = await MariadbServer.start();
}, 120_000);
afterAll(async () => {
  for (const proxy of proxies) await proxy.close();
  await postgres.stop();
  await mariadb?.stop();
});

/** A proxy before the server of this URL, and the URL through it. */
async function behindProxy(url: string): Promise<{ proxy: CuttingProxy; through: Secret }> {
  const proxy = await CuttingProxy.open(url);
  proxies.push(proxy);
  const target = new URL(url);
  target.port = new URL(proxy.url).port;
  return { proxy, through: new Secret(target.href) };
}

async function openPostgres() {
  const member = { name: 'postgres', product: 'PostgreSQL', erasure: '' };
  const { proxy, through } = await behindProxy(postgres.url());
  const options = { url: through, schema: 'public' } as never;
  return { proxy, session: await PostgresSession.open({ ...context, options } as never, member), sleeps: 'pg_sleep' };
}

async function openMariadb() {
  const { proxy, through } = await behindProxy(String((await mariadb.place()).options.url));
  return { proxy, session: await MysqlSession.open({ url: through } as never), sleeps: 'sleep' };
}

describe.each([
  ['postgres', openPostgres, true],
  ['mysql', openMariadb, hasMariadb],
] as const)('a server of %s that goes silent', (_, open, isThere) => {
  it.skipIf(!isThere)('during a statement ends it, and its session', { timeout: 120_000 }, async () => {
    const { proxy, session, sleeps } = await open();
    session.askMs = 50;
    // One that lasts is waited for.
    await session.rows(`SELECT ${sleeps}(0.5)`);
    proxy.cut = { request: /^/, at: 'silence' };
    const failure = await session.rows('SELECT 1').then(String, (error: unknown) => error);
    expect(failure).toMatchObject({ code: 'destination_unavailable', message: expect.stringContaining('silent') });
    await session.close();
  });

  it.skipIf(!isThere)('before the goodbye does not keep the session open', { timeout: 60_000 }, async () => {
    const { proxy, session } = await open();
    proxy.cut = { request: /^/, at: 'silence' };
    await session.close();
  });
});

/** Counts its connections, and never responds. */
async function silentServer() {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets, close };
}

const login = { accessKeyId: 'id', secretAccessKey: new Secret('secret') };
const common = { signal: new AbortController().signal, notice: () => undefined };

const opens: Readonly<Record<string, (url: string) => Promise<unknown>>> = {
  s3: (endpoint) => S3Store.open({ url: 's3://bucket/folder', endpoint, ...login, ...common }),
  azure: async (endpoint) => {
    const url = 'az://container/folder';
    const store = await AzureStore.open({
      url,
      endpoint,
      account: 'crm',
      accountKey: new Secret('c2VjcmV0'),
      ...common,
    });
    return store.folders();
  },
  iceberg: (catalog) => RestCatalog.open({ catalog, namespace: 'crm', vendsCredentials: false, ...common } as never),
};

describe('a server that never responds', () => {
  it.concurrent.each(Object.keys(opens))(
    '%s: one request is sent to it, for less than a minute',
    { timeout: 60_000 },
    async (name) => {
      const server = await silentServer();
      const failure = await opens[name]?.(server.url).then(String, (error: unknown) => error);
      server.close();
      expect(failure).toMatchObject({ code: 'destination_unavailable', kind: 'retryable' });
      expect(server.sockets).toHaveLength(1);
    },
  );
});

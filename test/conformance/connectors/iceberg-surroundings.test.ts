import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { DeleteBucketCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import iceberg from '../../../connectors/iceberg/index.js';
import { after, before, delivered, undelivered } from '../../../src/conformance/rows.js';
import { TestTarget } from '../../../src/conformance/test-target.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { icebergRows } from '../../fixtures/iceberg-rows.js';
import { ObjectStore, s3Refusal } from '../../fixtures/object-store.js';
import { Workspace } from '../../fixtures/workspace.js';

const extensions = await duckdbExtensions(['avro', 'httpfs', 'iceberg']);
const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test' };
const warehouse = 'warehouse-of-tables';

/** Names of all objects of the warehouse. */
async function objects(store: ObjectStore): Promise<string[]> {
  const client = store.client();
  try {
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: warehouse }));
    return Contents.map(({ Key = '' }) => Key).sort();
  } finally {
    client.destroy();
  }
}

describe.skipIf(extensions === undefined)('Iceberg tables in an object store', () => {
  let store: ObjectStore;
  let catalog: IcebergCatalog;
  let places = 0;

  beforeAll(async () => {
    store = await ObjectStore.open();
    await store.createBucket(warehouse);
    catalog = (await IcebergCatalog.start({ endpoint: store.bareUrl, bucket: warehouse })) as IcebergCatalog;
  });
  afterAll(async () => {
    await catalog?.stop();
    await store?.close();
  });

  async function subject(more: Record<string, unknown> = {}): Promise<TestTarget> {
    places += 1;
    const namespace = `store_${places}`;
    await catalog.createNamespace(namespace);
    store.meddling = undefined;
    const options = { catalog: catalog.url, namespace, extensions, memory_mb: 256, endpoint: store.url, ...login };
    const reading = { catalog: catalog.url, namespace, extensions: extensions as string, endpoint: store.bareUrl };
    const place = { options, rows: (table: string) => icebergRows(reading, table), close: async () => undefined };
    return TestTarget.open({ connector: iceberg, place, destination: more });
  }

  const namespaceOf = ({ place }: TestTarget) => String(place.options.namespace);

  it.each([
    ['has no such bucket', 404, 'NoSuchBucket', 'destination_refused', /no such bucket/],
    ['denies all writes', 403, 'AccessDenied', 'destination_permission', /refuses access/],
    ['has a wrong secret', 403, 'SignatureDoesNotMatch', 'destination_permission', /refuses access/],
    ['fails', 503, 'SlowDown', 'destination_unavailable', /no response/],
  ])(
    'stay as they were if the store %s',
    async (_, status, name, wanted, words) => {
      const refused = await subject();
      delivered(await refused.run(before));
      const [rows, tables] = [await refused.place.rows('people'), await catalog.contents(namespaceOf(refused))];
      store.meddling = ({ method }, response) =>
        method === 'GET' || method === 'HEAD' ? undefined : s3Refusal(response, status, name);
      const { code, message, hint } = undelivered(await refused.run(after));
      expect([code, message]).toEqual([wanted, expect.stringMatching(words)]);
      expect(hint).not.toBeNull();
      expect(await catalog.contents(namespaceOf(refused))).toEqual(tables);
      store.meddling = undefined;
      expect(await refused.place.rows('people')).toEqual(rows);
      delivered(await refused.push());
      await refused.close();
    },
    180_000,
  );

  it('are not made if the bucket of the warehouse is gone', async () => {
    const gone = await subject();
    const remote = await ObjectStore.open();
    const client = remote.client();
    await remote.createBucket('gone');
    const other = (await IcebergCatalog.start({ endpoint: remote.bareUrl, bucket: 'gone' })) as IcebergCatalog;
    try {
      await other.createNamespace('cdp');
      await client.send(new DeleteBucketCommand({ Bucket: 'gone' }));
      gone.destination = { catalog: other.url, namespace: 'cdp', endpoint: remote.url };
      const { status, message } = undelivered(await gone.run(before));
      expect([status, message]).toEqual(['failed', expect.stringMatching(/does not create table "people"/)]);
      expect(await other.tables('cdp')).toEqual([]);
    } finally {
      client.destroy();
      await other.stop();
      await remote.close();
      await gone.close();
    }
  }, 180_000);

  it('are not made by an engine that its extensions are missing for, and the store stays as it was', async () => {
    const missing = await subject({ extensions: '/nowhere' });
    const there = await objects(store);
    const { code, hint } = undelivered(await missing.run(before));
    expect([code, hint]).toEqual([
      'duckdb_extension_missing',
      expect.stringMatching(
        /offline, put the file of DuckDB v\d+\.\d+\.\d+ for \w+ into a folder and name it with `ext/,
      ),
    ]);
    expect(await catalog.tables(namespaceOf(missing))).toEqual([]);
    expect(await objects(store)).toEqual(there);
    await missing.close();
  });
});

describe.skipIf(extensions === undefined)('a delivery to Iceberg on a machine with a proxy', () => {
  let space: Workspace;
  let proxy: Server;
  let catalog: IcebergCatalog;
  let store: ObjectStore;
  const asked: string[] = [];

  beforeAll(async () => {
    [space, store] = await Promise.all([Workspace.open({ profiles: 200 }), ObjectStore.open()]);
    await store.createBucket(warehouse);
    catalog = (await IcebergCatalog.start({ endpoint: store.bareUrl, bucket: warehouse })) as IcebergCatalog;
    await catalog.createNamespace('cdp');
    proxy = createServer((request, response) => {
      asked.push(`${request.method} ${request.url}`);
      response.writeHead(502).end();
    });
    proxy.on('connect', (request, socket) => {
      asked.push(`CONNECT ${request.url}`);
      socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n');
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    proxy.close();
    await Promise.all([space.close(), catalog.stop()]);
    await store.close();
  });

  async function configure(name: string, more: Record<string, unknown>): Promise<void> {
    const options = { name: 'lake', connector: 'iceberg', catalog: catalog.url, namespace: 'cdp', memory_mb: 256 };
    const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
    await space.configure(name, [members], { job: { destinations: [{ ...options, ...login, ...more }] } });
  }

  it('reaches nothing on this machine by the proxy', async () => {
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    await configure('near', { endpoint: store.url, extensions });
    const env = { HTTP_PROXY: url, http_proxy: url, HTTPS_PROXY: url };
    const { code, stderr } = await space.run('near', [], env);
    expect([code, stderr, asked]).toEqual([0, '', []]);
    expect(await catalog.tables('cdp')).toEqual(['members']);
  }, 120_000);

  it('reaches a remote store through the proxy, and nothing else', async () => {
    const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
    await configure('far', { endpoint: 'http://store.example', extensions, table: 'far' });
    const { code, report } = await space.run('far', [], { HTTP_PROXY: url });
    expect([code, report.jobs[0]?.destinations[0]?.status]).toEqual([5, 'failed']);
    expect(asked.length).toBeGreaterThan(0);
    expect(asked.filter((each) => !each.includes('http://store.example/'))).toEqual([]);
  }, 180_000);

  it('says what to install where DuckDB cannot download its extensions', async () => {
    await configure('offline', { endpoint: store.url, table: 'offline' });
    const closed = 'http://127.0.0.1:1';
    const { code, stdout } = await space.cdsync(['run', 'offline.json'], { HTTP_PROXY: closed, HTTPS_PROXY: closed });
    expect(code).not.toBe(0);
    expect(stdout).toContain('DuckDB\'s extension "avro" is not installed, and cannot be downloaded');
    expect(stdout).toContain('name it with `extensions:`');
    expect(await catalog.tables('cdp')).not.toContain('offline');
  }, 120_000);
});

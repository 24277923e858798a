import { mkdir, readdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { GetObjectCommand, ListObjectsV2Command, PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { parseExact, stringifyExact } from '../../../connectors/iceberg/exact-json.js';
import iceberg from '../../../connectors/iceberg/index.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { IcebergCatalog } from '../../fixtures/iceberg-catalog.js';
import { LoadDriver, merge } from '../../fixtures/load-driver.js';
import { ObjectStore } from '../../fixtures/object-store.js';

const extensions = await duckdbExtensions(['avro', 'httpfs', 'iceberg']);
const canBeHad = extensions !== undefined && (await IcebergCatalog.canBeHad());

interface Loaded {
  config?: Record<string, string>;
  metadata: { location: string; snapshots: { 'manifest-list': string }[]; properties: Record<string, string> };
}

const rowsOf = (value: string) =>
  `SELECT CASE WHEN i = 2 THEN 'delete' ELSE 'upsert' END AS _op, i::VARCHAR AS id, '${value}' AS name FROM range(6) r(i)`;

/** A catalog with a server in front that alters its responses about tables, and a listener that nothing may reach. */
class Altered {
  /** Changes the catalog's response for a table. */
  alter: (loaded: Loaded) => void = () => undefined;
  /** Requests to the listener: address and login. */
  readonly heard: string[] = [];
  readonly catalog: IcebergCatalog;
  readonly #servers: readonly Server[];

  private constructor(catalog: IcebergCatalog) {
    this.catalog = catalog;
    const front = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { method = '', url = '' } = request;
      const body = chunks.length === 0 ? {} : { body: Buffer.concat(chunks) };
      const headers = { 'content-type': 'application/json' };
      const result = await fetch(`${catalog.url}${url}`, { method, headers, ...body });
      let text = await result.text();
      if (method === 'GET' && result.ok && /\/tables\/[^?/]+/.test(url)) {
        const loaded = parseExact(text) as Loaded;
        this.alter(loaded);
        text = stringifyExact(loaded);
      }
      response.writeHead(result.status, headers).end(text);
    });
    const listener = createServer(({ method, url, headers }, response) => {
      this.heard.push(`${method} ${url} ${headers.authorization} ${headers['x-amz-security-token']}`);
      response.writeHead(404).end();
    });
    this.#servers = [front, listener];
  }

  static async start(...place: Parameters<typeof IcebergCatalog.start>): Promise<Altered> {
    const altered = new Altered((await IcebergCatalog.start(...place)) as IcebergCatalog);
    for (const server of altered.#servers) await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    await altered.catalog.createNamespace('cdp');
    return altered;
  }

  #port(server: number): number {
    return ((this.#servers[server] as Server).address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port(0)}`;
  }

  get listener(): string {
    return `127.0.0.1:${this.#port(1)}`;
  }

  async stop(): Promise<void> {
    for (const server of this.#servers) server.closeAllConnections();
    for (const server of this.#servers) server.close();
    await this.catalog.stop();
  }
}

/** Makes a path of one length from another: Avro files have the lengths of their texts. */
function asLongAs(path: string, other: string, filler = '/'): string {
  if (other.length > path.length) throw new Error(`${other} is longer than ${path}`);
  const at = other.lastIndexOf('/');
  return `${other.slice(0, at)}${filler.repeat(path.length - other.length)}${other.slice(at)}`;
}

/** The results of each way of using a table. */
async function codes(driver: LoadDriver): Promise<string[]> {
  const key = { destination: 'target', stream: 'members', table: 'members' };
  const works = [
    () => driver.with(async (destination) => [await destination.state(key), await destination.describe('members')]),
    () => driver.load({ table: 'members', query: rowsOf('b'), key: ['id'], action: merge, sequence: 2 }),
    () =>
      driver.load({
        table: 'members',
        query: rowsOf('c'),
        key: ['id'],
        action: { type: 'merge', absent: 'delete' },
        sequence: 3,
      }),
  ];
  const ends: string[] = [];
  for (const work of works)
    ends.push(
      await work().then(
        () => 'ok',
        (error) => error.code ?? String(error.stack),
      ),
    );
  return [...new Set(ends)];
}

const first = { table: 'members', query: rowsOf('a').replace(/.*AS _op,/, 'SELECT'), key: ['id'], sequence: 1 };

function listed({ snapshots }: Loaded['metadata'], change: (list: string) => string): void {
  for (const snapshot of snapshots) snapshot['manifest-list'] = change(snapshot['manifest-list']);
}

/** Replaces each path of an Avro file that ends so. Its texts are not compressed. */
function changed(bytes: Buffer, ending: string, change: (path: string) => string): Buffer {
  const text = bytes.toString('latin1');
  const altered = text.replace(new RegExp(`(file:|s3:)?/[\\x21-\\x7e]+${ending}`, 'g'), (path) =>
    asLongAs(path, change(path)),
  );
  if (altered === text) throw new Error(`no path ends with ${ending}`);
  return Buffer.from(altered, 'latin1');
}

describe.skipIf(!canBeHad)('of a table in a folder, cdsync uses no other files than those below its location', () => {
  let front: Altered;
  let driver: LoadDriver;
  let outside: string;
  let metadata: string;
  let kept: Map<string, Buffer>;
  beforeAll(async () => {
    front = await Altered.start();
    driver = await LoadDriver.open(iceberg, { catalog: front.url, namespace: 'cdp', extensions, memory_mb: 256 });
    await driver.load(first);
    await driver.load({ ...first, query: rowsOf('b'), action: merge, sequence: 2 });
    outside = join(front.catalog.folder, '..', 'o');
    await mkdir(outside);
    await writeFile(join(outside, 'secret'), 'x');
    metadata = join(front.catalog.folder, 'cdp', 'members', 'metadata');
    const names = (await readdir(metadata)).filter((name) => name.endsWith('.avro'));
    kept = new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(metadata, name))] as const)));
  });
  afterAll(async () => {
    await driver.close();
    await front.stop();
  });

  async function faults(wanted: string, alter: Altered['alter'] = () => undefined): Promise<unknown[]> {
    await utimes(join(outside, 'secret'), new Date(0), new Date(1000));
    front.alter = alter;
    const ends = (await codes(driver)).filter((code) => code !== wanted);
    const { atimeMs } = await stat(join(outside, 'secret'));
    return [...ends, ...front.heard, ...(await readdir(outside)).slice(1), ...(atimeMs === 0 ? [] : ['read'])];
  }

  it.each<[string, () => string]>([
    ['a file outside', () => `file://${outside}/secret`],
    ['a path out of it', () => `file://${metadata}/../../../../o/secret`],
    ['an address', () => `http://${front.listener}/x.avro`],
    ['another bucket', () => 's3://other/x.avro'],
  ])('if the catalog has %s for the list of manifests', async (_, path) => {
    expect(await faults('storage_altered', ({ metadata }) => listed(metadata, path))).toEqual([]);
  });

  it.each<[string, RegExp, string, () => string]>([
    ['a list of manifests has a file outside', /^snap-/, '-m0\\.avro', () => `${outside}/secret`],
    ['a list of manifests has an address', /^snap-/, '-m0\\.avro', () => `http://${front.listener}/secret`],
    ['a manifest has a file outside', /-m0\.avro$/, '\\.parquet', () => `${outside}/secret`],
    ['a manifest has an address', /-m0\.avro$/, '\\.parquet', () => `http://${front.listener}/secret`],
  ])('if %s', async (_, file, ending, path) => {
    for (const [name, bytes] of kept)
      if (file.test(name)) await writeFile(join(metadata, name), changed(bytes, ending, path));
    expect(await faults('storage_altered')).toEqual([]);
    for (const [name, bytes] of kept) await writeFile(join(metadata, name), bytes);
  });

  it.each(['http://x/members', 'gs://x/members', 's3://', 'relative/members', '/tmp/../etc', 7])(
    'if its location is %s',
    async (location) => {
      expect(await faults('destination_refused', ({ metadata }) => Object.assign(metadata, { location }))).toEqual([]);
    },
  );

  it('and works if nothing is altered', async () => {
    expect(await faults('ok')).toEqual([]);
  });
});

describe.skipIf(!canBeHad)('of a table in a bucket, cdsync uses no other files than those below its location', () => {
  let front: Altered;
  let driver: LoadDriver;
  let store: ObjectStore;
  const login = {
    access_key_id: 'AKIDEXAMPLE',
    secret_access_key: 'a-secret-of-the-test',
    session_token: 'a-session-of-the-test',
  };
  const kept = new Map<string, Buffer>();
  const at = 'warehouse/cdp/members/metadata/';
  beforeAll(async () => {
    store = await ObjectStore.open();
    for (const name of ['lake', 'else']) await store.createBucket(name);
    front = await Altered.start({ endpoint: store.url, bucket: 'lake' });
    const options = { catalog: front.url, namespace: 'cdp', extensions, memory_mb: 256 };
    driver = await LoadDriver.open(iceberg, { ...options, ...login, endpoint: store.url });
    await driver.load(first);
    await driver.load({ ...first, query: rowsOf('b'), action: merge, sequence: 2 });
    const client = store.client();
    const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: 'lake', Prefix: at }));
    for (const { Key = '' } of Contents) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: 'lake', Key }));
      if (Key.endsWith('.avro')) kept.set(Key, Buffer.from((await Body?.transformToByteArray()) ?? []));
    }
    client.destroy();
  });
  afterAll(async () => {
    await driver.close();
    await front.stop();
    await store.close();
  });

  async function put(objects: ReadonlyMap<string, Buffer>): Promise<void> {
    const client = store.client();
    for (const [Key, Body] of objects) await client.send(new PutObjectCommand({ Bucket: 'lake', Key, Body }));
    client.destroy();
  }

  async function faults(wanted: string, alter: Altered['alter'] = () => undefined): Promise<unknown[]> {
    front.alter = alter;
    store.requests.length = 0;
    const ends = (await codes(driver)).filter((code) => code !== wanted);
    const others = store.requests.filter((request) => !/^[A-Z]+ \/lake\/warehouse\/cdp\/members\//.test(request));
    return [...ends, ...front.heard, ...others];
  }

  it.each<[string, (list: string) => string]>([
    ['another bucket', () => 's3://else/x.avro'],
    ['another table', (list) => list.replace('/members/', '/others/')],
    ['a path out of it', (list) => list.replace('/metadata/', '/../../../../else/')],
    ['a file of this machine', () => '/etc/passwd'],
    ['an address', () => `http://${front.listener}/x.avro`],
  ])('if the catalog has %s for the list of manifests', async (_, path) => {
    expect(await faults('storage_altered', ({ metadata }) => listed(metadata, path))).toEqual([]);
  });

  it('if the catalog has another server for the list of manifests', async () => {
    const path = (list: string) => `${list}?s3_endpoint=${front.listener}`;
    expect(await faults('destination_refused', ({ metadata }) => listed(metadata, path))).toEqual([]);
  });

  it.each<[string, RegExp, string, (path: string) => string]>([
    ['a list of manifests has another bucket', /snap-/, '-m0\\.avro', (path) => path.replace('/lake/', '/else/')],
    [
      'a list of manifests has a path out of it',
      /snap-/,
      '-m0\\.avro',
      () => 's3://lake/warehouse/cdp/members/../../../../else/x',
    ],
    ['a list of manifests has a path of this machine', /snap-/, '-m0\\.avro', () => '/etc/passwd'],
    ['a manifest has another bucket', /-m0\.avro$/, '\\.parquet', (path) => path.replace('/lake/', '/else/')],
    [
      'a manifest has a path out of it',
      /-m0\.avro$/,
      '\\.parquet',
      () => 's3://lake/warehouse/cdp/members/../../../../else/x',
    ],
    ['a manifest has an address', /-m0\.avro$/, '\\.parquet', () => `http://${front.listener}/x`],
  ])('if %s', async (_, file, ending, path) => {
    const altered = [...kept]
      .filter(([key]) => file.test(key))
      .map(([key, bytes]) => [key, changed(bytes, ending, path)] as const);
    await put(new Map(altered));
    expect(await faults('storage_altered')).toEqual([]);
    await put(kept);
  });

  it('if a manifest has another server', async () => {
    const query = (path: string) => `${path.slice(0, 36)}?s3_endpoint=${front.listener}`.padEnd(path.length, 'x');
    await put(
      new Map(
        [...kept]
          .filter(([key]) => key.endsWith('-m0.avro'))
          .map(([key, bytes]) => [key, changed(bytes, '\\.parquet', query)]),
      ),
    );
    expect(await faults('destination_refused')).toEqual([]);
    await put(kept);
  });

  it('and a server that the catalog gives gets the login of the catalog, not one of this machine', async () => {
    const environment = {
      AWS_ACCESS_KEY_ID: 'AKIDOTHER',
      AWS_SECRET_ACCESS_KEY: 'x',
      AWS_SESSION_TOKEN: 'of-this-machine',
    };
    for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value);
    onTestFinished(() => {
      vi.unstubAllEnvs();
      front.heard.length = 0;
    });
    const options = { catalog: front.url, namespace: 'cdp', extensions, memory_mb: 256 };
    const vended = await LoadDriver.open(iceberg, options);
    const config = { 's3.access-key-id': 'AKIDVENDED', 's3.secret-access-key': 'x', 'client.region': 'us-east-1' };
    const at = (endpoint: string) => (loaded: Loaded) =>
      Object.assign(loaded, { config: { ...config, 's3.endpoint': endpoint, 's3.path-style-access': 'true' } });
    front.alter = at(`http://${front.listener}`);
    expect(await codes(vended)).toEqual(['destination_refused']);
    expect(front.heard[0]).toContain('Credential=AKIDVENDED');
    expect(front.heard.filter((heard) => /of-this-machine|AKIDOTHER/.test(heard))).toEqual([]);
    front.alter = at('http://store.example.com');
    expect(await codes(vended)).toEqual(['destination_plaintext']);
    front.alter = at(store.url);
    expect(await codes(vended)).toEqual(['ok']);
    await vended.close();
  });

  it('and works if nothing is altered', async () => {
    expect(await faults('ok')).toEqual([]);
  });
});

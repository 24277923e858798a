import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import ducklake from '../../../connectors/ducklake/index.js';
import { tableConformance } from '../../../src/conformance/index.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { lakeRows } from '../../fixtures/ducklake.js';
import { ObjectStore, readerKeyId } from '../../fixtures/object-store.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';

const names = ['ducklake', 'postgres_scanner', 'sqlite_scanner', 'httpfs'];
const extensions = await duckdbExtensions(names);

async function filePlace(type: 'duckdb' | 'sqlite', folderOf: string) {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-ducklake-'));
  const file = join(folder, `lake.${type}`);
  const reading = { extensions: folderOf, names, catalog: `${type === 'sqlite' ? 'sqlite:' : ''}${file}` };
  return {
    options: { catalog: { [type]: file }, data_path: join(folder, 'data'), schema: 'cdp', extensions: folderOf },
    rows: (table: string) => lakeRows(reading, `FROM lake.cdp."${table}"`),
    close: () => rm(folder, { recursive: true, force: true }),
  };
}

function withDuckdb(folderOf: string): void {
  describe('with a catalog in DuckDB', () => {
    tableConformance({ connector: ducklake, place: () => filePlace('duckdb', folderOf) });
  });
}

function withSqlite(folderOf: string): void {
  describe('with a catalog in SQLite', () => {
    tableConformance({ connector: ducklake, place: () => filePlace('sqlite', folderOf) });
  });
}

async function postgresPlace(server: PostgresServer, folderOf: string) {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-ducklake-'));
  const schema = server.name();
  const before = ["CREATE SECRET owner (TYPE postgres, PASSWORD 'owner-secret')"];
  const catalog = `postgres:host=127.0.0.1 port=${server.port} dbname=crm user=owner`;
  const settings = ["META_SECRET 'owner'", `METADATA_SCHEMA '${schema}'`];
  const reading = { extensions: folderOf, names, before, catalog, settings };
  const options = { catalog_schema: schema, data_path: join(folder, 'data'), schema: 'cdp', extensions: folderOf };
  return {
    options: { catalog: { postgres: server.url() }, ...options },
    rows: (table: string) => lakeRows(reading, `FROM lake.cdp."${table}"`),
    through: (port: number) => ({ catalog: { postgres: server.url(port) } }),
    withoutPermission: async () => {
      await server.query(`CREATE SCHEMA ${schema}; CREATE ROLE ${schema}_reader LOGIN PASSWORD 'reader-secret'`);
      const url = server.url().replace('owner:owner-secret', `${schema}_reader:reader-secret`);
      return { catalog: { postgres: url } };
    },
    close: async () => {
      await server.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function withPostgres(folderOf: string): void {
  describe('with a catalog in PostgreSQL', () => {
    let server: PostgresServer;
    const proxied = { host: '127.0.0.1', port: 0 };
    beforeAll(async () => {
      server = await PostgresServer.start();
      proxied.port = server.port;
    });
    afterAll(() => server.stop());
    tableConformance({ connector: ducklake, server: proxied, place: () => postgresPlace(server, folderOf) });
  });
}

function withBucket(folderOf: string): void {
  describe('with its data in an S3 store', () => {
    let store: ObjectStore;
    let buckets = 0;
    const proxied = { host: '127.0.0.1', port: 0 };
    beforeAll(async () => {
      store = await ObjectStore.open();
      proxied.port = Number(new URL(store.url).port);
    });
    afterAll(() => store.close());

    async function bucketPlace() {
      buckets += 1;
      const Bucket = `lake-${buckets}`;
      await store.createBucket(Bucket);
      const place = await filePlace('sqlite', folderOf);
      const { data_path: _, ...options } = place.options;
      const login = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'a-secret-of-the-test' };
      const inStore = { ...options, data_url: `s3://${Bucket}/lake`, endpoint: store.url, ...login };
      const secret = `CREATE SECRET s3 (TYPE s3, KEY_ID 'AKIDEXAMPLE', SECRET 'a-secret-of-the-test', REGION 'us-east-1',
        ENDPOINT '127.0.0.1:${proxied.port}', URL_STYLE 'path', USE_SSL false)`;
      const catalog = `sqlite:${options.catalog.sqlite}`;
      const reading = { extensions: folderOf, names, catalog, before: [secret] };
      return {
        options: inStore,
        rows: (table: string) => lakeRows(reading, `FROM lake.cdp."${table}"`),
        through: (port: number) => ({ endpoint: `http://127.0.0.1:${port}` }),
        withoutPermission: async () => ({ ...inStore, access_key_id: readerKeyId }),
        close: place.close,
      };
    }

    tableConformance({ connector: ducklake, server: proxied, place: bucketPlace });
  });
}

if (extensions === undefined)
  it.skip('connector ducklake: the extensions of DuckDB cannot be had here', () => undefined);
else for (const suite of [withDuckdb, withSqlite, withPostgres, withBucket]) suite(extensions);

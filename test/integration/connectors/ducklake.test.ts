import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import ducklake from '../../../connectors/ducklake/index.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { lakeRows } from '../../fixtures/ducklake.js';
import { LoadDriver, merge } from '../../fixtures/load-driver.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { openssl, selfSigned } from '../../fixtures/self-signed.js';
import { Workspace } from '../../fixtures/workspace.js';

const names = ['ducklake', 'postgres_scanner', 'sqlite_scanner'];
const found = await duckdbExtensions(names);
const extensions = found ?? '';

let server: PostgresServer;
let folder: string;
const drivers: LoadDriver[] = [];

async function driver(options: Record<string, unknown>): Promise<LoadDriver> {
  const opened = await LoadDriver.open(ducklake, { extensions, data_path: join(folder, 'data'), ...options });
  drivers.push(opened);
  return opened;
}

/** A lake with its catalog in a schema of PostgreSQL that is its own. */
function inPostgres(): {
  readonly options: Record<string, unknown>;
  rows(sql: string): Promise<Record<string, string | null>[]>;
} {
  const schema = server.name();
  const reading = {
    extensions,
    names,
    before: ["CREATE SECRET owner (TYPE postgres, PASSWORD 'owner-secret')"],
    catalog: `postgres:host=127.0.0.1 port=${server.port} dbname=crm user=owner`,
    settings: ["META_SECRET 'owner'", `METADATA_SCHEMA '${schema}'`],
  };
  return {
    options: { catalog: { postgres: server.url() }, catalog_schema: schema },
    rows: async (sql) => (await lakeRows(reading, sql)).map((row) => Object.fromEntries(row)),
  };
}

const rowsOf = (from: number, to: number, value = 'v') =>
  `SELECT i::VARCHAR AS id, '${value}' || i AS name FROM range(${from}, ${to}) r(i)`;

describe.skipIf(found === undefined)('connector ducklake', () => {
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server.stop());
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'cdsync-lake-'));
  });
  afterEach(async () => {
    for (const each of drivers.splice(0)) await each.close();
    await chmod(folder, 0o700);
    await rm(folder, { recursive: true, force: true });
  });

  it('keeps one of two first loads of one table, and one of two later ones', async () => {
    const lake = inPostgres();
    const [one, other] = [await driver(lake.options), await driver(lake.options)];
    // Another table has made cdsync's own.
    await one.load({ table: 'first', query: rowsOf(0, 1), sequence: 1 });
    for (const sequence of [1, 2]) {
      // Each has begun its transaction before one of them commits.
      let waiting = 2;
      let release = () => {};
      const both = new Promise<void>((resolve) => {
        release = resolve;
      });
      const onFile = () => {
        waiting -= 1;
        if (waiting === 0) release();
        return both;
      };
      const loads = [one, other].map((each) =>
        each.load({ table: 't', query: rowsOf(sequence * 10, sequence * 10 + 10), sequence, onFile }),
      );
      const ends = await Promise.allSettled(loads);
      expect(ends.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
      const lost = ends.find((each) => each.status === 'rejected') as PromiseRejectedResult;
      expect(lost.reason).toMatchObject({ code: 'destination_unavailable', kind: 'retryable' });
      expect(await lake.rows('SELECT count(*) AS n FROM lake.main.t')).toEqual([{ n: String(sequence * 10) }]);
    }
    expect(await one.sequence('t')).toBe(2);
  });

  it('loads different tables side by side', async () => {
    const lake = inPostgres();
    const tables = ['a', 'b', 'c'];
    const writers = await Promise.all(tables.map(() => driver(lake.options)));
    // Makes the lake, the schema and the tables.
    for (const table of tables) await writers[0]?.load({ table, query: rowsOf(0, 5), sequence: 1 });
    for (let sequence = 2; sequence < 5; sequence += 1)
      await Promise.all(
        tables.map((table, index) =>
          writers[index]?.load({
            table,
            query: `SELECT 'upsert' AS _op, * FROM (${rowsOf(0, 8, `v${sequence}-`)})`,
            key: ['id'],
            action: merge,
            sequence,
          }),
        ),
      );
    for (const table of tables)
      expect(await lake.rows(`SELECT count(*) AS n, max(name) AS m FROM lake.main.${table}`)).toEqual([
        { n: '8', m: 'v4-7' },
      ]);
  });

  it('reads a table as it was after a run', async () => {
    const lake = inPostgres();
    const writer = await driver(lake.options);
    await writer.load({ table: 't', query: rowsOf(0, 3), key: ['id'], sequence: 1 });
    const query = "SELECT 'delete' AS _op, '0' AS id, NULL::VARCHAR AS name UNION ALL SELECT 'upsert', '1', 'new'";
    await writer.load({ table: 't', query, key: ['id'], action: merge, sequence: 2 });
    const snapshots = await lake.rows(
      `SELECT snapshot_id, commit_message AS message, commit_extra_info->>'run_id' AS run, commit_extra_info->>'stream' AS stream
       FROM lake.snapshots() WHERE author = 'cdsync' ORDER BY snapshot_id`,
    );
    expect(snapshots).toMatchObject([
      { message: 'run run-1: t', run: 'run-1', stream: 't' },
      { message: 'run run-2: t', run: 'run-2', stream: 't' },
    ]);
    const at = (index: number) =>
      lake.rows(`SELECT id, name FROM lake.main.t AT (VERSION => ${snapshots[index]?.snapshot_id}) ORDER BY id`);
    expect(await at(0)).toEqual([0, 1, 2].map((i) => ({ id: `${i}`, name: `v${i}` })));
    expect(await at(1)).toEqual([
      { id: '1', name: 'new' },
      { id: '2', name: 'v2' },
    ]);
    // The same by the SQL of the README, in its words for these tables.
    const readme = await readFile(join(import.meta.dirname, '../../../connectors/ducklake/README.md'), 'utf8');
    const [block = ''] = [...readme.matchAll(/^```sql\n(.*?)^```$/gms)].flatMap(([, sql = '']) =>
      sql.includes('table_changes') ? [sql] : [],
    );
    const [first, second] = snapshots.map((each) => String(each.snapshot_id));
    const words: Record<string, string> = { cdp: 'main', members: 't', '11': String(second), '12': String(second) };
    const here = block.replaceAll(/\b(cdp|members|11|12)\b/g, (word) => words[word] ?? word);
    const [runs, now, changes] = await Promise.all(
      here
        .split(';')
        .slice(0, 3)
        .map((sql) => lake.rows(sql)),
    );
    expect(runs?.map(({ snapshot_id }) => snapshot_id)).toEqual([first, second]);
    expect(now?.map(({ id }) => id).sort()).toEqual(['1', '2']);
    expect(changes?.map(({ change_type, id }) => `${change_type} ${id}`).sort()).toEqual([
      'delete 0',
      'update_postimage 1',
      'update_preimage 1',
    ]);
    // Rows and record are one snapshot.
    const records = await lake.rows(
      `SELECT max(record->>'sequence') AS s FROM lake.main._cdsync_state AT (VERSION => ${snapshots[0]?.snapshot_id})`,
    );
    expect(records).toEqual([{ s: '1' }]);
  });

  it('refuses a wrong password, a missing database, another version and another place, and shows no secret', async () => {
    const lake = inPostgres();
    await (await driver(lake.options)).load({ table: 't', query: rowsOf(0, 3), sequence: 1 });
    const open = async (options: Record<string, unknown>) => (await driver(options)).sequence('t');
    const wrong = server.url().replace('owner-secret', 'wrong-hidden');
    const refused = await open({ ...lake.options, catalog: { postgres: wrong } }).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'destination_login', hint: 'check user and password of `catalog`' });
    expect(`${refused} ${(refused as Error).cause}`).not.toContain('wrong-hidden');
    const nowhere = server.url().replace(/crm$/, 'nowhere');
    await expect(open({ ...lake.options, catalog: { postgres: nowhere } })).rejects.toMatchObject({
      code: 'destination_login',
      hint: 'create the database, or correct the URL',
    });
    const moved = open({ ...lake.options, data_path: join(folder, 'other') });
    await expect(moved).rejects.toMatchObject({ code: 'destination_refused' });
    await expect(moved).rejects.toThrow(`keeps its data in ${join(folder, 'data')}/`);
    const schema = lake.options.catalog_schema;
    await server.query(`UPDATE ${schema}.ducklake_metadata SET value = '0.3' WHERE key = 'version'`);
    await expect(open(lake.options)).rejects.toThrow('has version 0.3; this DuckDB needs version');
    await server.query(`UPDATE ${schema}.ducklake_metadata SET value = '1.0' WHERE key = 'version'`);
    expect(await lake.rows('SELECT count(*) AS n FROM lake.main.t')).toEqual([{ n: '3' }]);
    expect(await readdir(folder)).toEqual(['data']);
  });

  it('refuses a catalog without a place for its data, a file of another kind, and a missing extension', async () => {
    const open = async (options: Record<string, unknown>) => (await driver(options)).sequence('t');
    const catalog = { duckdb: join(folder, 'lake.ducklake') };
    await expect(open({ catalog, data_path: undefined })).rejects.toMatchObject({
      code: 'destination_refused',
      hint: 'say where the Parquet files of a new one go: `data_path` or `data_url`',
    });
    await writeFile(join(folder, 'text.sqlite'), 'this is no database at all, but a text of some length\n'.repeat(40));
    await expect(open({ catalog: { sqlite: join(folder, 'text.sqlite') } })).rejects.toThrow(
      'is no catalog of DuckLake',
    );
    await expect(open({ catalog, extensions: folder })).rejects.toMatchObject({ code: 'duckdb_extension_missing' });
    expect(await readdir(folder)).toEqual(['text.sqlite']);
  });

  it.skipIf(!openssl)('verifies the certificate of the catalog, and says so if no one vouches for it', async () => {
    const certificate = selfSigned();
    const encrypted = await PostgresServer.start('cdsync-lake-tls-', certificate);
    try {
      const authority = join(folder, 'authority.pem');
      await writeFile(authority, certificate.cert);
      const url = encrypted.url().replace('127.0.0.1', 'localhost');
      const open = async (written: string, tls: string) =>
        (await driver({ catalog: { postgres: written }, tls })).sequence('t');
      const unknown = open(url, 'verify');
      await expect(unknown).rejects.toMatchObject({ code: 'destination_login' });
      await expect(unknown).rejects.toThrow(/^no encrypted connection to PostgreSQL localhost:\d+\/crm: /);
      expect(await open(`${url}?sslrootcert=${authority}`, 'verify')).toBeUndefined();
      expect(await open(url, 'required')).toBeUndefined();
    } finally {
      await encrypted.stop();
    }
  });

  it('shares a catalog in DuckDB between destinations of one process', async () => {
    const catalog = { duckdb: join(folder, 'lake.ducklake') };
    const writers = await Promise.all(['a', 'b'].map((schema) => driver({ catalog, schema })));
    const [one] = writers;
    await one?.sequence('t');
    await Promise.all(writers.map((each) => each.sequence('t')));
    await one?.load({ table: 't', query: rowsOf(0, 5), sequence: 1 });
    expect((await one?.with((destination) => destination.sums('t', [], false)))?.rows).toBe(5);
  });
});

describe.skipIf(found === undefined)('cdsync with connector ducklake', () => {
  let space: Workspace;
  beforeAll(async () => {
    [space, server] = await Promise.all([Workspace.open({ profiles: 200 }), PostgresServer.start()]);
  });
  afterAll(async () => {
    await server.stop();
    await space.close();
  });

  it('loads one catalog from two processes at once, checks it, and verifies checksums', async () => {
    const catalog = { postgres: server.url() };
    const data = join(space.jobFolder('one'), '..', '..', 'lake');
    const destination = {
      name: 'lake',
      connector: 'ducklake',
      catalog,
      catalog_schema: 'lake',
      data_path: data,
      extensions,
    };
    const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
    const guards = { max_deleted: '100%', max_changed: '1000%' };
    for (const name of ['one', 'two'])
      await space.configure(name, [members], {
        job: { guards, destinations: [{ ...destination, name, table: `{stream}_${name}`, verify: 'rows' }] },
      });
    const checked = await space.cdsync(['check', 'one.json', '--json', '--quiet']);
    expect(JSON.parse(checked.stdout).destinations).toMatchObject([
      {
        status: 'ok',
        reached: expect.stringMatching(/^PostgreSQL 127\.0\.0\.1:\d+\/crm schema lake, schema main, which/),
      },
    ]);
    expect(await server.query("SELECT nspname FROM pg_namespace WHERE nspname = 'lake'")).toEqual([]);
    for (let day = 0; day < 3; day += 1) {
      const ends = await Promise.all(['one', 'two'].map((name) => space.run(name)));
      expect(ends.map(({ code }) => code)).toEqual([0, 0]);
      await space.control('change', { days: 1, updated: 0.3, inserted: 0.05, deleted: 0.05 });
    }
    const again = await space.cdsync(['check', 'one.json', '--json', '--quiet']);
    expect(JSON.parse(again.stdout).destinations).toMatchObject([{ status: 'ok', lacks: [] }]);
  });
});

if (found === undefined) it.skip('connector ducklake: the extensions of DuckDB cannot be had here', () => undefined);

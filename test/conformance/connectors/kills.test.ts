import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, it } from 'vitest';
import type { Manifest } from '../../../connectors/files/manifest.js';
import { comparedRows, inMemory, selectCompared } from '../../../src/conformance/compare.js';
import { randomFrom } from '../../fault/random.js';
import { ClickhouseServer, clickhouseIsThere, newestRecords } from '../../fixtures/clickhouse.js';
import { CountedWay, Steps } from '../../fixtures/counting-proxy.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { lakeRows } from '../../fixtures/ducklake.js';
import { IcebergTarget, icebergCanBeHad } from '../../fixtures/iceberg-target.js';
import { type KilledTarget, Killing, killedModes } from '../../fixtures/killing.js';
import { MariadbServer, mariadbIsInstalled } from '../../fixtures/mariadb.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { seed } from '../../fixtures/seed.js';
import { setQuery } from '../../fixtures/set-reader.js';
import { TrinoServer, trinoIsThere } from '../../fixtures/trino.js';
import { Workspace } from '../../fixtures/workspace.js';

const kills = Number(process.env.CDSYNC_TEST_DELIVERY_KILLS ?? 100);

async function postgres(): Promise<KilledTarget> {
  const server = await PostgresServer.start();
  const number = async (sql: string) => Number(Object.values((await server.query(sql))[0] ?? {})[0]);
  return {
    options: { connector: 'postgres', url: server.url(), schema: 'cdp' },
    tables: async () =>
      (await server.query("SELECT tablename FROM pg_tables WHERE schemaname = 'cdp'")).map(({ tablename }) =>
        String(tablename),
      ),
    rows: (table) => server.rows('cdp', table),
    connections: () => number("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'cdsync%'"),
    rowsFirst: [],
    stop: () => server.stop(),
  };
}

async function mariadb(): Promise<KilledTarget> {
  const server = await MariadbServer.start();
  const { options, rows } = await server.place();
  const database = new URL(String(options.url)).pathname.slice(1);
  const texts = async (sql: string) => (await server.rows(sql)).map((row) => String([...row.values()][0]));
  return {
    options: { connector: 'mysql', ...options },
    tables: () => texts(`SELECT table_name FROM information_schema.tables WHERE table_schema = '${database}'`),
    rows,
    connections: async () =>
      Number((await texts("SELECT count(*) FROM information_schema.processlist WHERE user LIKE 'loader%'"))[0]),
    rowsFirst: ['replace'],
    stop: () => server.stop(),
  };
}

async function trino(): Promise<KilledTarget> {
  const server = await TrinoServer.start();
  const { options, rows } = await server.place('iceberg');
  const { catalog, schema } = options;
  const steps = new Steps();
  const way = new CountedWay(server.address.port, steps);
  return {
    options: { connector: 'trino', ...options, url: await way.open() },
    tables: async () => {
      const found = await server.query(
        `SELECT table_name FROM ${catalog}.information_schema.tables WHERE table_schema = '${schema}'`,
      );
      return found.map(([name]) => String(name));
    },
    rows,
    connections: async () => way.sockets.size,
    rowsFirst: ['mirror', 'replace', 'append'],
    steps,
    isWorking: () => server.isWorking(),
    stop: async () => {
      way.close();
      await server.stop();
    },
  };
}

const lakeExtensions = await duckdbExtensions(['ducklake', 'postgres_scanner']);

async function lake(extensions: string): Promise<KilledTarget> {
  const server = await PostgresServer.start();
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-killed-lake-'));
  const reading = {
    extensions,
    names: ['ducklake', 'postgres_scanner'],
    before: ["CREATE SECRET owner (TYPE postgres, PASSWORD 'owner-secret')"],
    catalog: `postgres:host=127.0.0.1 port=${server.port} dbname=crm user=owner`,
    settings: ["META_SECRET 'owner'"],
  };
  const number = async (sql: string) => Number(Object.values((await server.query(sql))[0] ?? {})[0]);
  const isMade = async () => (await number("SELECT count(*) FROM pg_tables WHERE tablename = 'ducklake_metadata'")) > 0;
  const newest = 'QUALIFY row_number() OVER (PARTITION BY destination ORDER BY rowid DESC) = 1 ORDER BY destination';
  return {
    options: {
      connector: 'ducklake',
      catalog: { postgres: server.url() },
      data_path: join(folder, 'data'),
      schema: 'cdp',
      extensions,
    },
    tables: async () => {
      if (!(await isMade())) return [];
      const named = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake' AND schema_name = 'cdp'";
      return (await lakeRows(reading, named)).map((row) => String(row.get('table_name')));
    },
    rows: (table) => lakeRows(reading, `FROM lake.cdp.${table} ${table === '_cdsync_state' ? newest : ''}`),
    connections: () => number("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'cdsync%'"),
    rowsFirst: [],
    stop: async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** How many files below a folder other processes have open. Linux lists them below /proc. */
async function filesOpenBelow(folder: string): Promise<number> {
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  const opened = processes.map(async (id) => {
    const names = await readdir(`/proc/${id}/fd`).catch(() => []);
    return Promise.all(names.map((name) => readlink(`/proc/${id}/fd/${name}`).catch(() => '')));
  });
  return (await Promise.all(opened)).flat().filter((path) => path.startsWith(`${folder}/`)).length;
}

async function duckdb(): Promise<KilledTarget> {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-killed-duckdb-'));
  const path = join(folder, 'warehouse.duckdb');
  const read = (sql: string) =>
    existsSync(path)
      ? inMemory(async (connection) => {
          await connection.run(`ATTACH '${path}' AS warehouse (READ_ONLY)`);
          return await selectCompared(connection, sql);
        })
      : Promise.resolve([]);
  const named = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'warehouse' AND schema_name = 'cdp'";
  return {
    options: { connector: 'duckdb', path, schema: 'cdp' },
    tables: async () => (await read(named)).map((row) => String(row.get('table_name'))),
    rows: (table) => read(`FROM warehouse.cdp.${table}`),
    connections: () => filesOpenBelow(folder),
    rowsFirst: [],
    stop: () => rm(folder, { recursive: true, force: true }),
  };
}

async function files(): Promise<KilledTarget> {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-killed-files-'));
  const manifestOf = async (table: string) =>
    JSON.parse(await readFile(join(folder, table, 'manifest.json'), 'utf8')) as Manifest;
  const tables = async () =>
    (await readdir(folder)).filter((table) => existsSync(join(folder, table, 'manifest.json')));
  return {
    options: { connector: 'files', path: folder },
    // A manifest has the record, so that a state of three tables is in three files.
    tables: async () => {
      const found = await tables();
      return found.length === 0 ? [] : ['_cdsync_state', '_cdsync_loads', ...found];
    },
    rows: async (table) => {
      if (table !== '_cdsync_state') return comparedRows(await setQuery(async (file) => join(folder, table, file)));
      const manifests = await Promise.all((await tables()).map(manifestOf));
      return manifests.map(
        ({ destination, record }) => new Map(Object.entries({ destination, record: JSON.stringify(record) })),
      );
    },
    connections: () => filesOpenBelow(folder),
    rowsFirst: [],
    // A set stays for readers for some time, and its manifest with it.
    left: async () => {
      const entries = await readdir(folder, { recursive: true });
      const sets = entries.filter((path) => /\/manifests\/\d+\.json$/.test(path));
      const manifests = await Promise.all(
        sets.map(async (path) => JSON.parse(await readFile(join(folder, path), 'utf8')) as Manifest),
      );
      const listed = new Set(manifests.flatMap((each) => each.files.map(({ path }) => join(each.table, path))));
      return entries.filter((path) => /\/data\/.*\.parquet$/.test(path) && !listed.has(path));
    },
    stop: () => rm(folder, { recursive: true, force: true }),
  };
}

async function clickhouse(): Promise<KilledTarget> {
  const server = await ClickhouseServer.start();
  const { options } = await server.place();
  const database = String(options.database);
  const steps = new Steps();
  const way = new CountedWay(server.address.port, steps);
  return {
    options: { connector: 'clickhouse', ...options, url: await way.open() },
    tables: async () =>
      (await server.select(`SELECT name FROM system.tables WHERE database = '${database}'`)).map(({ name }) =>
        String(name),
      ),
    rows: async (table) => {
      const rows = await server.rows(database, table);
      return table === '_cdsync_state' ? newestRecords(rows) : rows;
    },
    connections: async () => way.sockets.size,
    rowsFirst: ['mirror', 'replace', 'append'],
    steps,
    stop: async () => {
      way.close();
      await server.stop();
    },
  };
}

function killed(name: string, start: () => Promise<KilledTarget>): void {
  describe(`deliveries to ${name} that are killed at random instants`, () => {
    let space: Workspace;
    let target: KilledTarget;
    beforeAll(async () => {
      [space, target] = await Promise.all([Workspace.open({ profiles: 4000 }), start()]);
      const destinations = killedModes.map((mode) => ({
        ...target.options,
        name: mode,
        mode,
        table: `{stream}_${mode}`,
      }));
      const guards = { max_deleted: '100%', max_changed: '1000%' };
      const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
      await space.configure('killed', [members], { job: { destinations, guards } });
    }, 300_000);
    afterAll(() => Promise.all([space?.close(), target?.stop()]), 300_000);

    it(`always leave the rows of a committed run, and in the end those of the last (seed ${seed}, ${kills} kills)`, async () => {
      const random = randomFrom(seed);
      const killing = new Killing(space, target, random);
      await killing.commit();
      let [count, over, commits] = [0, 0, 1];
      while (count < kills) {
        if (await killing.kill()) count += 1;
        else over += 1;
        await killing.check();
        if (random() < 0.4) {
          await killing.commit();
          commits += 1;
        }
      }
      await killing.commit();
      await killing.finish();
      console.info(
        `${name}: ${count} deliveries killed after they had connected; ${over} were over before; ${commits + 1} runs committed; seed ${seed}`,
      );
      if (target.isWorking !== undefined)
        console.info(`${killing.outlived} left a statement that the server continued to execute`);
      for (const [message, times] of target.steps?.struck ?? []) console.info(`killed ${times} times ${message}`);
    }, 3_600_000);
  });
}

killed('DuckDB', duckdb);
killed('files', files);
killed('PostgreSQL', postgres);
if (mariadbIsInstalled()) killed('MariaDB', mariadb);
else it.skip('deliveries to MariaDB that are killed: mariadb-server is not installed', () => undefined);
if (clickhouseIsThere()) killed('ClickHouse', clickhouse);
else it.skip('deliveries to ClickHouse that are killed: there is no ClickHouse', () => undefined);
if (trinoIsThere()) killed('Trino', trino);
else it.skip('deliveries to Trino that are killed: there is no Trino', () => undefined);
if (lakeExtensions !== undefined) killed('a lake', () => lake(lakeExtensions));
else it.skip('deliveries to a lake that are killed: the extensions of DuckDB cannot be had', () => undefined);
if (await icebergCanBeHad()) {
  killed('Iceberg', () => IcebergTarget.start());
} else
  it.skip('deliveries to Iceberg that are killed: its catalog or the extensions of DuckDB cannot be had', () =>
    undefined);

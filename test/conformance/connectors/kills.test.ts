import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ComparedRow } from '../../../src/conformance/index.js';
import { type Random, randomFrom } from '../../fault/random.js';
import { duckdbExtensions } from '../../fixtures/duckdb-extensions.js';
import { lakeRows } from '../../fixtures/ducklake.js';
import { IcebergTarget, icebergCanBeHad } from '../../fixtures/iceberg-target.js';
import { MariadbServer, mariadbIsInstalled } from '../../fixtures/mariadb.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { seed } from '../../fixtures/seed.js';
import { TrinoServer, trinoIsThere } from '../../fixtures/trino.js';
import { ended, Workspace } from '../../fixtures/workspace.js';

const kills = Number(process.env.CDSYNC_TEST_DELIVERY_KILLS ?? 100);
const columns = ['id', 'tier', 'country', 'email', 'points', 'ltv'];

/** The server that deliveries go to, read without the connector. */
interface Target {
  readonly options: Record<string, unknown>;
  tables(): Promise<string[]>;
  rows(table: string): Promise<readonly ComparedRow[]>;
  /** How many connections of deliveries the server still has, also those of killed deliveries. */
  connections(): Promise<number>;
  /** Modes whose rows may be there before their watermark. */
  readonly rowsFirst: readonly string[];
  stop(): Promise<void>;
}

async function postgres(): Promise<Target> {
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

async function mariadb(): Promise<Target> {
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

async function trino(): Promise<Target> {
  const server = await TrinoServer.start();
  const { options, rows } = await server.place('iceberg');
  const { catalog, schema } = options;
  return {
    options: { connector: 'trino', ...options },
    tables: async () => {
      const found = await server.query(
        `SELECT table_name FROM ${catalog}.information_schema.tables WHERE table_schema = '${schema}'`,
      );
      return found.map(([name]) => String(name));
    },
    rows,
    // Trino ends the statement of a client that is gone after a while.
    connections: async () => {
      const running = await server.query(
        "SELECT count(*) FROM system.runtime.queries WHERE starts_with(source, 'cdsync-') AND state NOT IN ('FINISHED', 'FAILED')",
      );
      return Number(running[0]?.[0]);
    },
    rowsFirst: ['mirror', 'replace', 'append'],
    stop: () => server.stop(),
  };
}

const lakeExtensions = await duckdbExtensions(['ducklake', 'postgres_scanner']);

async function lake(extensions: string): Promise<Target> {
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
  const standing = 'QUALIFY row_number() OVER (PARTITION BY destination ORDER BY rowid DESC) = 1 ORDER BY destination';
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
    rows: (table) => lakeRows(reading, `FROM lake.cdp.${table} ${table === '_cdsync_watermarks' ? standing : ''}`),
    connections: () => number("SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'cdsync%'"),
    rowsFirst: [],
    stop: async () => {
      await server.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Rows by key, each as one text. Numbers are written as JavaScript writes them, not as the server does. */
type Image = ReadonlyMap<string, string>;

function image(rows: readonly { get(column: string): unknown }[]): Map<string, string> {
  const shown = (value: unknown) => (value === null || value === undefined ? '-' : String(value));
  const numbers = new Set(['points', 'ltv']);
  const text = (row: { get(column: string): unknown }) =>
    columns
      .map((name) => (numbers.has(name) && row.get(name) !== null ? Number(row.get(name)) : row.get(name)))
      .map(shown);
  return new Map(rows.map((row) => [shown(row.get('id')), text(row).join(' | ')]));
}

/** The rows that the changes in a table of mode `append` add up to; each change may be there only once. */
function replayed(rows: readonly ComparedRow[]): Image {
  const changes = rows.map((row) => `${row.get('_run_id')} ${row.get('_op')} ${row.get('id')}`);
  expect(new Set(changes).size).toBe(changes.length);
  const inOrder = [...rows].sort((a, b) => String(a.get('_run_id')).localeCompare(String(b.get('_run_id'))));
  const live = new Map<string, string>();
  for (const row of inOrder) {
    const id = String(row.get('id'));
    if (row.get('_op') === 'delete') live.delete(id);
    else live.set(id, image([row]).get(id) as string);
  }
  return live;
}

function differences(found: Image, wanted: Image): string[] {
  const all = new Set([...found.keys(), ...wanted.keys()]);
  return [...all]
    .filter((id) => found.get(id) !== wanted.get(id))
    .map((id) => `${id}: ${found.get(id)} where ${wanted.get(id)} is right`)
    .slice(0, 5);
}

class Killing {
  readonly #space: Workspace;
  readonly #target: Target;
  readonly #random: Random;
  /** The rows of each committed run, by its sequence; none before the first. */
  readonly #committed: Image[] = [new Map()];
  /** A delivery is killed within this many milliseconds of connecting. It shrinks if the delivery had ended before, and grows if not. */
  #within = 1000;

  constructor(space: Workspace, target: Target, random: Random) {
    this.#space = space;
    this.#target = target;
    this.#random = random;
  }

  async commit(): Promise<void> {
    await this.#space.control('change', { days: 1, updated: 0.3, inserted: 0.05, deleted: 0.05 });
    await this.#space.runWell('killed', ['--no-push']);
    const rows = await this.#space.query('killed', `SELECT ${columns.join(', ')} FROM members`);
    this.#committed.push(image(rows.map((row) => new Map(Object.entries(row)))));
  }

  /** Kills a delivery at a random instant after it has connected. @returns false if it had ended before */
  async kill(): Promise<boolean> {
    const child = this.#space.spawn(['push', 'killed.json', '--quiet']);
    const end = ended(child);
    while (child.exitCode === null && (await this.#target.connections()) === 0) await wait(2);
    await Promise.race([wait(this.#random() * this.#within), end]);
    child.kill('SIGKILL');
    const { code, stderr } = await end;
    if (code !== null && code !== 0) throw new Error(`the delivery ended with ${code}: ${stderr}`);
    this.#within *= code === null ? 1.05 : 0.8;
    return code === null;
  }

  /** Waits until the server has noticed that all connections are gone. */
  async #settled(): Promise<void> {
    while ((await this.#target.connections()) > 0) await wait(10);
  }

  async check(): Promise<void> {
    await this.#settled();
    const tables = await this.#target.tables();
    const has = (table: string) => tables.includes(table);
    const watermarks = has('_cdsync_watermarks') ? await this.#target.rows('_cdsync_watermarks') : [];
    for (const mode of ['mirror', 'replace', 'append']) {
      const rows = has(`members_${mode}`) ? await this.#target.rows(`members_${mode}`) : [];
      const found = mode === 'append' ? replayed(rows) : image(rows);
      expect([mode, mode === 'append' ? 0 : rows.length]).toEqual([mode, mode === 'append' ? 0 : found.size]);
      const sequence = Number(watermarks.find((row) => row.get('destination') === mode)?.get('sequence') ?? 0);
      const possible = this.#target.rowsFirst.includes(mode)
        ? this.#committed.slice(sequence)
        : [this.#committed[sequence] ?? new Map()];
      const wrong = possible.map((wanted) => differences(found, wanted));
      const right = wrong.some((each) => each.length === 0);
      expect([mode, sequence, right ? [] : wrong[0]]).toEqual([mode, sequence, []]);
    }
  }

  /** A delivery that is not killed must deliver everything, and leave nothing else behind. */
  async finish(): Promise<void> {
    const { code, stdout } = await this.#space.cdsync(['push', 'killed.json', '--json', '--quiet']);
    expect([code, stdout]).toEqual([0, expect.stringContaining('"status":"ok"')]);
    await this.check();
    const tables = ['_cdsync_watermarks', 'members_append', 'members_mirror', 'members_replace'];
    expect((await this.#target.tables()).sort()).toEqual(tables);
    const sequences = (await this.#target.rows('_cdsync_watermarks')).map((row) => Number(row.get('sequence')));
    expect(sequences).toEqual([1, 2, 3].map(() => this.#committed.length - 1));
    const left = (await this.#space.files('killed')).filter((file) => /deliveries\/[^/]+\/work\//.test(file));
    expect(left).toEqual([]);
  }
}

function killed(name: string, start: () => Promise<Target>): void {
  describe(`deliveries to ${name} that are killed at random instants`, () => {
    let space: Workspace;
    let target: Target;
    beforeAll(async () => {
      [space, target] = await Promise.all([Workspace.open({ profiles: 4000 }), start()]);
      const destinations = ['mirror', 'replace', 'append'].map((mode) => ({
        ...target.options,
        name: mode,
        mode,
        table: `{stream}_${mode}`,
      }));
      const guards = { max_deleted: '100%', max_changed: '1000%' };
      const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
      await space.configure('killed', [members], { job: { destinations, guards } });
    });
    afterAll(() => Promise.all([space.close(), target.stop()]));

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
    }, 3_600_000);
  });
}

killed('PostgreSQL', postgres);
if (mariadbIsInstalled()) killed('MariaDB', mariadb);
else it.skip('deliveries to MariaDB that are killed: mariadb-server is not installed', () => undefined);
if (trinoIsThere()) killed('Trino', trino);
else it.skip('deliveries to Trino that are killed: there is no Trino', () => undefined);
if (lakeExtensions !== undefined) killed('a lake', () => lake(lakeExtensions));
else it.skip('deliveries to a lake that are killed: the extensions of DuckDB cannot be had', () => undefined);
if (await icebergCanBeHad()) killed('Iceberg', () => IcebergTarget.start());
else
  it.skip('deliveries to Iceberg that are killed: its catalog or the extensions of DuckDB cannot be had', () =>
    undefined);

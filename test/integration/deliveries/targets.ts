import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Manifest } from '../../../connectors/files/manifest.js';
import type { ComparedRow } from '../../../src/conformance/index.js';
import type { TableConnector } from '../../../src/sdk/index.js';
import { ClickhouseServer, clickhouseIsThere, newestRecords } from '../../fixtures/clickhouse.js';
import { icebergCanBeHad } from '../../fixtures/iceberg-target.js';
import { MariadbServer, mariadbIsInstalled, mysqlIsInstalled } from '../../fixtures/mariadb.js';
import { PostgresServer } from '../../fixtures/postgres-server.js';
import { setQuery } from '../../fixtures/set-reader.js';
import { DuckdbProcess } from './duckdb-process.js';
import { ducklake, ducklakeCanBeHad } from './ducklake.js';
import { fakes } from './fakes.js';
import { iceberg } from './iceberg.js';
import { hasLongNumber, isDeeper, isJson } from './json-value.js';

/** Where one series delivers to, read and changed without the connector. */
export interface Place {
  readonly options: Record<string, unknown>;
  quoted(name: string): string;
  /** SQL of a table's name. */
  table(name: string): string;
  literal(text: string): string;
  /** Rows with every value as text. */
  rows(table: string): Promise<readonly ComparedRow[]>;
  /** Columns and their types; none if there is no such table. */
  types(table: string): Promise<ReadonlyMap<string, string>>;
  /** Fails if the target takes no statements. */
  run(sql: string): Promise<void>;
  drop(table: string): Promise<void>;
  /** Tables that loads make beside their own, and that outlive a session. */
  beside?(): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** SQL with which hands change a table of one database. */
export interface Hands {
  /** SQL that gives a column another type, which holds all of its values, and a type as it writes it, from how the database shows it. */
  retype?(table: string, column: string, type: string): string;
  written?(type: string): string;
  /** SQL of a table's comment, where copies of a table have none. */
  comment?(table: string, text: string): string;
  /** SQL that copies a table with everything that belongs to it. */
  copy(from: string, to: string): readonly string[];
  /** SQL for a trigger that writes another text into a column, and to remove it. */
  trigger?(table: string, column: string): { readonly make: readonly string[]; readonly remove: readonly string[] };
}

export interface Target {
  readonly name: string;
  /** A type of another width for a text. */
  readonly otherText: string;
  /** The type of a user's column. */
  readonly text: string;
  /** Whether each load stamps the table, so that an old copy is noticed without a look at the whole table. */
  readonly stampsLoads: boolean;
  /** Whether a column of a declared type cannot hold a text, or JSON. */
  refuses(kind: string, text: string): boolean;
  /** Statements that may change a table; undefined if the target takes no statements. */
  readonly hands?: Hands;
  /**
   * The steps that a delivery counts until it kills itself: messages to a server, or statements of DuckDB; undefined if no other
   * process can reach the target.
   */
  readonly killedAt: 'message' | 'statement' | undefined;
  /** Connectors to use in place of those that come with cdsync. */
  readonly connectors?: ReadonlyMap<string, TableConnector>;
  start(): Promise<{ place(): Promise<Place>; stop(): Promise<void> }>;
}

const double = (name: string) => `"${name.replaceAll('"', '""')}"`;
const back = (name: string) => `\`${name.replaceAll('`', '``')}\``;
const single = (text: string) => `'${text.replaceAll("'", "''")}'`;

const postgres: Target = {
  name: 'postgres',
  otherText: 'character varying(4000)',
  text: 'text',
  stampsLoads: true,
  refuses: (kind, text) => text.includes('\0') || (kind !== 'VARCHAR' && text.includes('\\u0000')),
  killedAt: 'message',
  hands: {
    retype: (table, column, type) => `ALTER TABLE ${table} ALTER COLUMN ${column} TYPE ${type}`,
    comment: (table, text) => `COMMENT ON TABLE ${table} IS ${single(text)}`,
    copy: (from, to) => [`CREATE TABLE ${to} (LIKE ${from} INCLUDING ALL)`, `INSERT INTO ${to} SELECT * FROM ${from}`],
    trigger: (table, column) => ({
      make: [
        `CREATE OR REPLACE FUNCTION public.spoiled() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.${column} := NEW.${column} || '!'; RETURN NEW; END $$`,
        `CREATE TRIGGER spoiled BEFORE INSERT OR UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION public.spoiled()`,
      ],
      remove: [`DROP TRIGGER spoiled ON ${table}`],
    }),
  },
  async start() {
    const server = await PostgresServer.start();
    return {
      stop: () => server.stop(),
      place: async () => {
        const schema = server.name();
        return {
          options: { connector: 'postgres', url: server.url(), schema },
          quoted: double,
          table: (name) => `${double(schema)}.${double(name)}`,
          literal: single,
          rows: (table) => server.rows(schema, table),
          types: async (table) => {
            const rows = await server.query(
              `SELECT attname AS name, format_type(atttypid, atttypmod) AS type FROM pg_attribute
               WHERE attrelid = to_regclass('${double(schema)}.${double(table)}') AND attnum > 0 AND NOT attisdropped`,
            );
            return new Map(rows.map(({ name, type }) => [String(name), String(type)]));
          },
          run: async (sql) => void (await server.query(sql)),
          drop: async (table) => void (await server.query(`DROP TABLE ${double(schema)}.${double(table)}`)),
          close: async () => void (await server.query(`DROP SCHEMA IF EXISTS ${double(schema)} CASCADE`)),
        };
      },
    };
  },
};

/** MariaDB, or MySQL: what of JSON each of them refuses, and the collation of a column of texts. */
interface MysqlServer {
  readonly name: string;
  readonly start: () => Promise<MariadbServer>;
  readonly refuses: (json: string) => boolean;
  readonly collation: string;
}

const mysql = ({ name, start, refuses, collation }: MysqlServer): Target => ({
  name,
  otherText: 'mediumtext',
  text: 'longtext',
  stampsLoads: false,
  // The texts of all values are beside those of JSON.
  refuses: (kind, json) => isJson(kind) && refuses(json),
  killedAt: 'message',
  hands: {
    retype: (table, column, type) => `ALTER TABLE ${table} MODIFY COLUMN ${column} ${type}`,
    written: (type) => `${type} CHARACTER SET utf8mb4 COLLATE ${collation}`,
    copy: (from, to) => [`CREATE TABLE ${to} LIKE ${from}`, `INSERT INTO ${to} SELECT * FROM ${from}`],
    trigger: (table, column) => {
      const [database] = table.split('.');
      const own = (event: string) =>
        `CREATE TRIGGER ${database}.spoiled_${event} BEFORE ${event} ON ${table} FOR EACH ROW SET NEW.${column} = concat(NEW.${column}, '!')`;
      return {
        make: [own('INSERT'), own('UPDATE')],
        remove: [`DROP TRIGGER ${database}.spoiled_INSERT`, `DROP TRIGGER ${database}.spoiled_UPDATE`],
      };
    },
  },
  async start() {
    const server = await start();
    return {
      stop: () => server.stop(),
      place: async () => {
        const { options, rows, close } = await server.place();
        const database = new URL(String(options.url)).pathname.slice(1);
        const table = (name: string) => `${database}.${back(name)}`;
        return {
          options: { connector: 'mysql', ...options },
          quoted: back,
          table,
          literal: (text) => single(text.replaceAll('\\', '\\\\')),
          rows,
          types: async (name) => {
            const found = await server.rows(
              `SELECT column_name AS name, column_type AS type FROM information_schema.columns
               WHERE table_schema = '${database}' AND table_name = ${single(name)}`,
            );
            return new Map(found.map((row) => [String(row.get('name')), String(row.get('type'))]));
          },
          run: (sql) => server.query(sql),
          drop: (name) => server.query(`DROP TABLE ${table(name)}`),
          close,
        };
      },
    };
  },
});

const mariadb = mysql({
  name: 'mysql',
  start: () => MariadbServer.start(),
  refuses: (json) => isDeeper(json, 31),
  collation: 'utf8mb4_nopad_bin',
});

const mysql97 = mysql({
  name: 'mysql-9.7',
  start: () => MariadbServer.startMysql(),
  refuses: (json) => isDeeper(json, 100) || hasLongNumber(json),
  collation: 'utf8mb4_0900_bin',
});

/** The text of a value of DuckDB, as JSON where it has parts. */
function duckdbText(name: string, type: string): string {
  const value = double(name);
  if (/^TIMESTAMP/.test(type)) return `strftime(${value}, '%Y-%m-%dT%H:%M:%S.%fZ')`;
  return /\[\]$|^STRUCT/.test(type) ? `to_json(${value})::VARCHAR` : `${value}::VARCHAR`;
}

const duckdb: Target = {
  name: 'duckdb',
  otherText: 'VARCHAR[]',
  text: 'VARCHAR',
  stampsLoads: true,
  refuses: () => false,
  killedAt: 'statement',
  hands: {
    retype: (table, column, type) =>
      `ALTER TABLE ${table} ALTER COLUMN ${column} SET DATA TYPE ${type}${type.endsWith('[]') ? ` USING [${column}]` : ` USING ${column}[1]`}`,
    comment: (table, text) => `COMMENT ON TABLE ${table} IS ${single(text)}`,
    copy: (from, to) => [`CREATE TABLE ${to} AS FROM ${from}`],
  },
  async start() {
    const process = new DuckdbProcess();
    const root = await mkdtemp(join(tmpdir(), 'cdsync-deliveries-duckdb-'));
    let places = 0;
    return {
      stop: async () => {
        await process.close();
        await rm(root, { recursive: true, force: true });
      },
      place: async () => {
        places += 1;
        const path = join(root, `${places}.duckdb`);
        const types = async (table: string) => {
          const rows = await process.rows(
            path,
            `SELECT column_name AS name, data_type AS type FROM duckdb_columns() WHERE schema_name = 'cdp' AND table_name = ${single(table)} ORDER BY column_index`,
          );
          return new Map(rows.map(({ name, type }) => [String(name), String(type)]));
        };
        return {
          options: { connector: 'duckdb', path, schema: 'cdp' },
          quoted: double,
          table: (name) => `cdp.${double(name)}`,
          literal: single,
          types,
          rows: async (table) => {
            const columns = [...(await types(table))];
            const texts = columns.map(([name, type], index) => `${duckdbText(name, type)} AS c${index}`);
            const rows = await process.rows(path, `SELECT ${texts.join(', ')} FROM cdp.${double(table)}`);
            return rows.map(
              (row) => new Map(columns.map(([name], index) => [name, row[`c${index}`] as string | null])),
            );
          },
          run: (sql) => process.run(path, sql),
          drop: (table) => process.run(path, `DROP TABLE cdp.${double(table)}`),
          close: async () => undefined,
        };
      },
    };
  },
};

const clickhouse: Target = {
  name: 'clickhouse',
  otherText: 'LowCardinality(Nullable(String))',
  text: 'Nullable(String)',
  stampsLoads: true,
  refuses: () => false,
  killedAt: 'message',
  hands: {
    retype: (table, column, type) => `ALTER TABLE ${table} MODIFY COLUMN ${column} ${type}`,
    comment: (table, text) => `ALTER TABLE ${table} MODIFY COMMENT ${single(text)}`,
    copy: (from, to) => [`CREATE TABLE ${to} AS ${from}`, `INSERT INTO ${to} SELECT * FROM ${from}`],
  },
  async start() {
    const server = await ClickhouseServer.start();
    return {
      stop: () => server.stop(),
      place: async () => {
        const { options, close } = await server.place();
        const database = String(options.database);
        const table = (name: string) => `${database}.${back(name)}`;
        return {
          options: { connector: 'clickhouse', ...options },
          quoted: back,
          table,
          literal: (text) => single(text.replaceAll('\\', '\\\\')),
          rows: async (name) => {
            const rows = await server.rows(database, name);
            return name === '_cdsync_state' ? newestRecords(rows) : rows;
          },
          types: async (name) => {
            const found = await server.select(
              `SELECT name, type FROM system.columns WHERE database = '${database}' AND table = ${single(name)} AND NOT startsWith(name, '_cdsync_')`,
            );
            return new Map(found.map((row) => [String(row.name), String(row.type)]));
          },
          run: (sql) =>
            server.query(
              sql.replace(/^UPDATE (\S+) SET /, 'ALTER TABLE $1 UPDATE ').replace(/^DELETE FROM \S+$/, '$& WHERE 1'),
            ),
          drop: (name) => server.query(`DROP TABLE ${table(name)} SYNC`),
          beside: async () => {
            const beside = `startsWith(name, '_cdsync_beside_')`;
            const rows = await server.select(
              `SELECT name FROM system.tables WHERE database = '${database}' AND ${beside}`,
            );
            return rows.map(({ name }) => String(name));
          },
          close,
        };
      },
    };
  },
};

/** Tables made of files, read by what their manifests say. */
function files(format: 'parquet' | 'csv' | 'jsonl'): Target {
  return {
    name: `files_${format}`,
    otherText: '',
    text: '',
    stampsLoads: true,
    refuses: () => false,
    killedAt: 'statement',
    async start() {
      const process = new DuckdbProcess();
      const root = await mkdtemp(join(tmpdir(), 'cdsync-deliveries-files-'));
      let places = 0;
      return {
        stop: async () => {
          await process.close();
          await rm(root, { recursive: true, force: true });
        },
        place: async () => {
          places += 1;
          const path = join(root, String(places));
          const manifestOf = (table: string) =>
            readFile(join(path, table, 'manifest.json'), 'utf8').then((text) => JSON.parse(text) as Manifest);
          const types = async (table: string) => {
            const manifest = await manifestOf(table).catch(() => undefined);
            return new Map((manifest?.schema ?? []).map(({ name, type }) => [name, type]));
          };
          const records = async () => {
            const tables = await readdir(path).catch(() => []);
            const found = await Promise.all(tables.map((table) => manifestOf(table).catch(() => undefined)));
            return found.flatMap((each) =>
              each === undefined
                ? []
                : [new Map(Object.entries({ table_name: each.table, record: JSON.stringify(each.record) }))],
            );
          };
          return {
            options: { connector: 'files', path, format },
            quoted: double,
            table: double,
            literal: single,
            types,
            rows: async (table) => {
              if (table === '_cdsync_state') return records();
              const query = await setQuery(async (file) => join(path, table, file));
              const columns = [...(await types(table))];
              const texts = columns.map(([name, type], index) => `${duckdbText(name, type)} AS c${index}`);
              const rows = await process.rows(':memory:', `SELECT ${texts.join(', ')} FROM (${query})`);
              return rows.map(
                (row) => new Map(columns.map(([name], index) => [name, row[`c${index}`] as string | null])),
              );
            },
            run: () => Promise.reject(new Error('files take no statements')),
            drop: (table) => rm(join(path, table), { recursive: true }),
            close: async () => undefined,
          };
        },
      };
    },
  };
}

/** A connector whose tables have records joins here: nothing else must be written for it. */
export const targets: readonly Target[] = [
  postgres,
  ...(mariadbIsInstalled() ? [mariadb] : []),
  ...(mysqlIsInstalled() ? [mysql97] : []),
  duckdb,
  ...(clickhouseIsThere() ? [clickhouse] : []),
  ...(['parquet', 'csv', 'jsonl'] as const).map(files),
  ...((await icebergCanBeHad()) ? [iceberg] : []),
  ...((await ducklakeCanBeHad()) ? [ducklake] : []),
  ...fakes,
];

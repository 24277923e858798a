import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import { readManifest } from '../../../src/snapshot/manifest.js';
import { job } from './side.js';

type Row = Record<string, unknown>;

/** Everything that can be seen of a storage folder, as named lists of lines. Two folders that are the same have the same print. */
export type Print = ReadonlyMap<string, readonly string[]>;

/** The end of a run id is random; its beginning is the time of the run, which the test decides. */
const randomEnd = /(\d{8}T\d{6}Z)-[0-9a-f]{6}/g;

/** A DuckDB instance of the test's own, for all files that it looks at. */
export class Reader {
  readonly #instance: DuckDBInstance;
  readonly #connection: DuckDBConnection;

  private constructor(instance: DuckDBInstance, connection: DuckDBConnection) {
    this.#instance = instance;
    this.#connection = connection;
  }

  static async open(): Promise<Reader> {
    const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
    const connection = await instance.connect();
    await connection.run("SET TimeZone = 'UTC'");
    return new Reader(instance, connection);
  }

  close(): void {
    this.#connection.closeSync();
    this.#instance.closeSync();
  }

  async rows(sql: string): Promise<Row[]> {
    return (await this.#connection.runAndReadAll(sql)).getRowObjectsJson() as Row[];
  }

  /** The rows of a query as lines, in an order of their own. */
  async lines(source: string): Promise<string[]> {
    const rows = await this.rows(`SELECT to_json(r)::VARCHAR AS line FROM (FROM ${source}) AS r ORDER BY 1`);
    return rows.map(({ line }) => String(line).replace(randomEnd, '$1')).sort();
  }

  async columns(source: string): Promise<string[]> {
    const rows = await this.rows(`SELECT column_name, column_type FROM (DESCRIBE FROM ${source})`);
    return rows.map(({ column_name, column_type }) => `${column_name} ${column_type}`);
  }

  async attached<T>(path: string, work: (name: string) => Promise<T>): Promise<T> {
    await this.#connection.run(`ATTACH '${path}' AS runs (READ_ONLY)`);
    try {
      return await work('runs');
    } finally {
      await this.#connection.run('DETACH runs');
    }
  }
}

/** @param moments times at which the streams are also looked at as they were */
export async function printOf(
  reader: Reader,
  folder: string,
  streams: readonly string[],
  moments: readonly string[],
): Promise<Print> {
  const print = new Map<string, readonly string[]>();
  const files = await readdir(folder).catch(() => [] as string[]);
  if (!files.includes(`${job}.duckdb`)) return print;
  await reader.attached(join(folder, `${job}.duckdb`), (name) => published(reader, name, { streams, moments, print }));
  await reader.attached(join(folder, '.cdsync', 'store.duckdb'), async (name) => {
    for (const stream of streams) {
      const tables = await reader.rows(
        `SELECT table_name FROM duckdb_tables() WHERE database_name = '${name}' AND table_name = 'keys_${stream}'`,
      );
      if (tables.length > 0)
        print.set(`hashes of ${stream}`, await reader.lines(`(SELECT key, hash FROM ${name}.private.keys_${stream})`));
    }
  });
  for (const stream of streams) await parquet(reader, join(folder, 'parquet', stream), stream, print);
  return print;
}

interface Looking {
  readonly streams: readonly string[];
  readonly moments: readonly string[];
  readonly print: Map<string, readonly string[]>;
}

async function published(reader: Reader, name: string, { streams, moments, print }: Looking): Promise<void> {
  const notices = ['runs', 'streams', 'columns', 'rejects'];
  for (const each of notices) print.set(`cdsync.${each}`, await reader.lines(`${name}.cdsync.${each}`));
  const tables = await reader.rows(
    `SELECT table_name FROM duckdb_tables() WHERE database_name = '${name}' AND schema_name = 'main'
     UNION ALL SELECT view_name FROM duckdb_views() WHERE database_name = '${name}' AND schema_name = 'main' AND NOT internal`,
  );
  print.set('tables', tables.map(({ table_name }) => String(table_name)).sort());
  for (const stream of streams.filter((each) => tables.some(({ table_name }) => table_name === each))) {
    for (const each of [stream, `${stream}__changes`, `${stream}__history`, `${stream}__last_changes`]) {
      print.set(`columns of ${each}`, await reader.columns(`${name}.${each}`));
      print.set(each, await reader.lines(`${name}.${each}`));
    }
    for (const moment of moments) {
      const rows = await reader.lines(`${name}.${stream}_as_of('${moment}')`).catch((error: Error) => [error.message]);
      print.set(`${stream} as of ${moment}`, rows);
    }
  }
}

async function parquet(
  reader: Reader,
  folder: string,
  stream: string,
  print: Map<string, readonly string[]>,
): Promise<void> {
  const manifest = await readManifest(join(folder, 'manifest.json')).catch(() => undefined);
  if (manifest === undefined) return;
  const { files, schema, rows, sequence, run_id } = manifest;
  print.set(`manifest of ${stream}`, [
    `${rows} rows, sequence ${sequence}, ${run_id.replace(randomEnd, '$1')}`,
    ...schema.map(({ name, type }) => `${name} ${type}`),
  ]);
  const paths = files.map(({ path }) => `'${join(folder, path)}'`).join(', ');
  print.set(`snapshot of ${stream}`, await reader.lines(`read_parquet([${paths}])`));
  const runs = (await readdir(join(folder, 'changes')).catch(() => [])).sort();
  const lines = await Promise.all(
    runs.map((run) => reader.lines(`read_parquet('${folder}/changes/${run}/*.parquet')`)),
  );
  print.set(
    `changes of ${stream}`,
    runs.flatMap((run, at) => [run.replace(randomEnd, '$1'), ...(lines[at] ?? [])]),
  );
}

/** What two destinations got. */
export async function destinationPrint(reader: Reader, folder: string, streams: readonly string[]): Promise<Print> {
  const print = new Map<string, readonly string[]>();
  const names = await readdir(folder).catch(() => [] as string[]);
  if (names.includes('warehouse.duckdb')) {
    await reader.attached(join(folder, 'warehouse.duckdb'), async (name) => {
      const tables = await reader.rows(`SELECT table_name FROM duckdb_tables() WHERE database_name = '${name}'`);
      for (const { table_name: table } of tables)
        if (streams.includes(String(table))) print.set(`delivered ${table}`, await reader.lines(`${name}.${table}`));
    });
  }
  for (const stream of names.includes('exports') ? await readdir(join(folder, 'exports')) : []) {
    const table = join(folder, 'exports', stream);
    const text = await readFile(join(table, 'manifest.json'), 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const { files } = JSON.parse(text) as { files: { path: string }[] };
    if (files.length === 0) continue;
    const paths = files.map(({ path }) => `'${join(table, path)}'`).join(', ');
    print.set(`exported ${stream}`, await reader.lines(`read_parquet([${paths}])`));
  }
  return print;
}

/** Where two prints differ, with a few of the lines that only one of them has. Empty if they are the same. */
export function differences(a: Print, b: Print): string[] {
  const found: string[] = [];
  for (const name of new Set([...a.keys(), ...b.keys()])) {
    const [left, right] = [a.get(name), b.get(name)];
    if (left?.join('\n') === right?.join('\n')) continue;
    const only = (these: readonly string[] = [], those: readonly string[] = []) =>
      these
        .filter((line) => !those.includes(line))
        .slice(0, 3)
        .map((line) => `    ${line.slice(0, 400)}`);
    found.push(
      `${name}: ${left?.length ?? 'none'} with recognition, ${right?.length ?? 'none'} without`,
      '  only with:',
      ...only(left, right),
      '  only without:',
      ...only(right, left),
    );
  }
  return found;
}

import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { Manifest } from '../../src/snapshot/manifest.js';
import { delivered, job, keys, streamNames } from './situations.js';

type Row = Record<string, unknown>;

/** Everything visible of one stream, independent of the order of rows and columns and of the runs that read them. */
export interface StreamPrint {
  /** Number and hashes of the rows. */
  readonly rows: string;
  /** The same of the changes, each with its operation. */
  readonly changes: string;
  /** The same of the last change of each key, without deletes, and of the first load's rows that no change concerns: the sum of all changes. */
  readonly folded: string;
  /** Number of rows in the history, and of those that are current. */
  readonly history: string;
}

export interface Published {
  readonly streams: ReadonlyMap<string, StreamPrint>;
  /** Runs that have committed. */
  readonly runs: ReadonlySet<string>;
}

/** Columns that differ between runs. */
const ofRuns = ['_run_id', '_synced_at', '_first_seen_at', '_valid_from', '_valid_to'];

async function rowsOf(connection: DuckDBConnection, sql: string): Promise<Row[]> {
  return (await connection.runAndReadAll(sql)).getRowObjectsJson() as Row[];
}

async function printOf(connection: DuckDBConnection, source: string): Promise<string> {
  const described = await rowsOf(connection, `SELECT column_name FROM (DESCRIBE FROM ${source}) ORDER BY 1`);
  const names = described.map(({ column_name }) => String(column_name)).filter((name) => !ofRuns.includes(name));
  const columns = names.map((name) => `"${name}"`).join(', ');
  const [print] = await rowsOf(
    connection,
    `SELECT count(*)::VARCHAR AS n, sum(hash(${columns}))::VARCHAR AS h FROM ${source}`,
  );
  return `${print?.n} rows ${print?.h} of ${names.length} columns`;
}

async function streamPrint(connection: DuckDBConnection, stream: string): Promise<StreamPrint> {
  const names = keys[stream] ?? [];
  const key = names.map((name) => `c."${name}"`).join(', ');
  const own = names.map((name) => `s."${name}"`).join(', ');
  const first = `(SELECT run_id FROM cdsync.streams WHERE stream = '${stream}' ORDER BY sequence LIMIT 1)`;
  const untouched = `SELECT s.* EXCLUDE (_run_id, _synced_at, _first_seen_at) FROM ${stream} AS s
    WHERE s._run_id = ${first} AND (${own}) NOT IN (SELECT (${key}) FROM ${stream}__changes AS c)`;
  const folded = `(SELECT c.* EXCLUDE (_op), c._op AS op FROM ${stream}__changes AS c JOIN cdsync.runs AS r ON c._run_id = r.run_id
    QUALIFY row_number() OVER (PARTITION BY ${key} ORDER BY r.sequence DESC) = 1)`;
  const [history] = await rowsOf(
    connection,
    `SELECT count(*)::VARCHAR AS n, (count(*) FILTER (_valid_to IS NULL))::VARCHAR AS present FROM ${stream}__history`,
  );
  return {
    rows: await printOf(connection, stream),
    changes: await printOf(connection, `${stream}__changes`),
    folded: await printOf(
      connection,
      `(SELECT * EXCLUDE (op, _run_id, _synced_at) FROM ${folded} WHERE op <> 'delete' UNION ALL BY NAME ${untouched})`,
    ),
    history: `${history?.n}, ${history?.present} current`,
  };
}

/** Opens a DuckDB file for reading, and closes it again whatever happens. */
async function reading<T>(path: string, work: (connection: DuckDBConnection) => Promise<T>): Promise<T> {
  const instance = await DuckDBInstance.create(path, path === ':memory:' ? {} : { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  try {
    return await work(connection);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Rows of a query on a published file. */
export function rowsIn(path: string, sql: string): Promise<Row[]> {
  return reading(path, (connection) => rowsOf(connection, sql));
}

/** The published rows of a job, read by the test's own DuckDB; undefined if nothing is published. */
export async function readPublished(jobFolder: string): Promise<Published | undefined> {
  const names: string[] = await readdir(jobFolder).catch(() => []);
  if (!names.includes(`${job}.duckdb`)) return undefined;
  return reading(join(jobFolder, `${job}.duckdb`), async (connection) => {
    const streams = new Map<string, StreamPrint>();
    const tables = await rowsOf(connection, "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'");
    const there = new Set(tables.map(({ table_name }) => table_name));
    for (const stream of streamNames) {
      if (there.has(stream)) streams.set(stream, await streamPrint(connection, stream));
    }
    const runs = await rowsOf(connection, 'SELECT run_id FROM cdsync.runs');
    return { streams, runs: new Set(runs.map(({ run_id }) => String(run_id))) };
  });
}

/** The rows of a stream's Parquet snapshot, after checking its files' checksums; undefined if there is none. */
async function snapshotPrint(connection: DuckDBConnection, folder: string): Promise<string | undefined> {
  const text = await readFile(join(folder, 'manifest.json'), 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  const { files } = JSON.parse(text) as Manifest;
  for (const { path, bytes, sha256 } of files) {
    const content = await readFile(join(folder, path));
    if (content.length !== bytes || createHash('sha256').update(content).digest('hex') !== sha256)
      throw new Error(`${path} has another size or checksum than the manifest says`);
  }
  const paths = files.map(({ path }) => `'${join(folder, path)}'`).join(', ');
  return printOf(connection, `read_parquet([${paths}])`);
}

export interface ParquetPrint {
  /** As {@link StreamPrint.rows}. */
  readonly rows: string;
  /** As {@link StreamPrint.changes}. */
  readonly changes: string;
}

/** The contents of a job's Parquet files. */
export async function readParquet(jobFolder: string): Promise<ReadonlyMap<string, ParquetPrint>> {
  return reading(':memory:', async (connection) => {
    const found = new Map<string, ParquetPrint>();
    for (const stream of streamNames) {
      const folder = join(jobFolder, 'parquet', stream);
      const rows = await snapshotPrint(connection, folder);
      if (rows === undefined) continue;
      // Only a stream that has changed since its first load has some.
      const has = (await rowsOf(connection, `FROM glob('${folder}/changes/*/*.parquet')`)).length > 0;
      const changes = `read_parquet('${folder}/changes/*/*.parquet', union_by_name = true)`;
      found.set(stream, { rows, changes: has ? await printOf(connection, changes) : 'none' });
    }
    return found;
  });
}

/** The rows of each stream at the destination; only streams that were delivered. */
export async function readDestination(path: string): Promise<ReadonlyMap<string, string>> {
  const isThere = await stat(path).then(
    ({ size }) => size > 0,
    () => false,
  );
  if (!isThere) return new Map();
  return reading(path, async (connection) => {
    const found = new Map<string, string>();
    const tables = await rowsOf(connection, 'SELECT table_name FROM duckdb_tables()');
    for (const stream of delivered) {
      if (tables.some(({ table_name }) => table_name === stream)) found.set(stream, await printOf(connection, stream));
    }
    return found;
  });
}

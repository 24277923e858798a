import { readFile, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type DuckDBConnection, DuckDBInstance } from '@duckdb/node-api';
import type { JobReport, RunReport } from '../../src/core/run-report.js';

type Row = Record<string, unknown>;

/** The commits of a job, as its files show them. */
export interface JobFacts {
  /** Of the last commit; 0 before the first. */
  readonly sequence: number;
  /** Every commit of a stream: `run stream rows inserted updated deleted`. */
  readonly commits: ReadonlySet<string>;
  /** Ids of the runs that have committed. */
  readonly runs: ReadonlySet<string>;
  /** Rows of each stream in the store. */
  readonly rows: ReadonlyMap<string, number>;
  /** The sequence of the published file, and its rows of each stream; undefined if nothing is published. */
  readonly published: { readonly sequence: number; readonly rows: ReadonlyMap<string, number> } | undefined;
  /** Sequence and rows of each manifest. */
  readonly manifests: ReadonlyMap<string, { readonly sequence: number; readonly rows: number }>;
  /** The sequence that the destination's own watermark has, by stream; empty if it is no DuckDB file. */
  readonly delivered: ReadonlyMap<string, number>;
}

async function read<T>(path: string, work: (rows: (sql: string) => Promise<Row[]>) => Promise<T>): Promise<T> {
  const instance = await DuckDBInstance.create(path, { access_mode: 'READ_ONLY' });
  const connection: DuckDBConnection = await instance.connect();
  try {
    return await work(async (sql) => (await connection.runAndReadAll(sql)).getRowObjectsJson() as Row[]);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    ({ size }) => size > 0,
    () => false,
  );
}

async function counts(
  rows: (sql: string) => Promise<Row[]>,
  streams: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  const tables = await rows("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'");
  for (const name of streams) {
    if (!tables.some(({ table_name }) => table_name === name)) continue;
    const [row] = await rows(`SELECT count(*)::VARCHAR AS n FROM "${name}"`);
    found.set(name, Number(row?.n));
  }
  return found;
}

async function publishedFacts(folder: string, job: string, streams: readonly string[]): Promise<JobFacts['published']> {
  const target = await readlink(join(folder, `${job}.duckdb`)).catch(() => undefined);
  if (target === undefined) return undefined;
  const rows = await read(join(folder, target), (query) => counts(query, streams));
  return { sequence: Number(/^published\/(\d+)/.exec(target)?.[1]), rows };
}

async function delivered(path: string | undefined): Promise<ReadonlyMap<string, number>> {
  if (path === undefined || !(await exists(path))) return new Map();
  return read(path, async (query) => {
    const tables = await query("SELECT 1 FROM duckdb_tables() WHERE table_name = '_cdsync_state'");
    if (tables.length === 0) return new Map();
    const rows = await query("SELECT stream, record->>'sequence' AS sequence FROM _cdsync_state");
    return new Map(rows.map(({ stream, sequence }) => [String(stream), Math.max(0, Number(sequence))]));
  });
}

/** Reads store, published file, manifests and destination of a job without a running process. */
export async function jobFacts(
  folder: string,
  { job, streams, destination }: { job: string; streams: readonly string[]; destination?: string },
): Promise<JobFacts> {
  const manifests = new Map<string, { sequence: number; rows: number }>();
  for (const stream of streams) {
    const text = await readFile(join(folder, 'parquet', stream, 'manifest.json'), 'utf8').catch(() => undefined);
    if (text !== undefined) manifests.set(stream, JSON.parse(text));
  }
  const others = {
    published: await publishedFacts(folder, job, streams),
    manifests,
    delivered: await delivered(destination),
  };
  const store = join(folder, '.cdsync', 'store.duckdb');
  if (!(await exists(store))) return { sequence: 0, commits: new Set(), runs: new Set(), rows: new Map(), ...others };
  const known = await read(store, async (query) => {
    const tables = await query("SELECT 1 FROM duckdb_tables() WHERE schema_name = 'cdsync' AND table_name = 'runs'");
    if (tables.length === 0) return { sequence: 0, commits: new Set<string>(), runs: new Set<string>() };
    const runs = await query('SELECT run_id, coalesce(sequence, 0)::INTEGER AS sequence FROM cdsync.runs');
    const commits = await query(
      "SELECT concat_ws(' ', run_id, stream, rows, inserted, updated, deleted) AS line FROM cdsync.streams",
    );
    return {
      sequence: Math.max(0, ...runs.map(({ sequence }) => Number(sequence))),
      commits: new Set(commits.map(({ line }) => String(line))),
      runs: new Set(runs.map(({ run_id }) => String(run_id))),
    };
  });
  return { ...known, rows: await read(store, (query) => counts(query, streams)), ...others };
}

function commitLine(run: string, { name, rows, inserted, updated, deleted }: JobReport['streams'][number]): string {
  return [run, name, rows, inserted, updated, deleted].join(' ');
}

function streamProblems(report: JobReport, { commits, rows, published, manifests }: JobFacts): string[] {
  const problems: string[] = [];
  for (const stream of report.streams) {
    const { name, status } = stream;
    const claim = `stream ${name} is reported as ${status}`;
    const isCommitted = [...commits].some((line) => line.startsWith(`${report.run_id} ${name} `));
    if ((status === 'ok') !== isCommitted) problems.push(`${claim}, and the store ${isCommitted ? 'has' : 'lacks'} it`);
    if (status !== 'ok') continue;
    if (!commits.has(commitLine(report.run_id, stream))) problems.push(`${claim} with other figures than in the store`);
    const shown = { published: published?.rows.get(name), manifest: manifests.get(name)?.rows };
    // With an error, it is committed and not published.
    const found = { store: rows.get(name), ...(stream.error === null ? shown : {}) };
    for (const [where, count] of Object.entries(found))
      if (count !== stream.rows) problems.push(`${claim} with ${stream.rows} rows, ${where} has ${count}`);
  }
  return problems;
}

function destinationProblems(report: JobReport, before: JobFacts, { delivered, manifests }: JobFacts): string[] {
  return report.destinations.flatMap(({ stream, status, rows }) => {
    const [was, is] = [before.delivered.get(stream), delivered.get(stream)];
    const hasArrived = is === manifests.get(stream)?.sequence;
    const says = `delivery of ${stream}: ${status}, ${rows} rows; its watermark was ${was}, is ${is}`;
    if (status === 'ok' || status === 'partial') return hasArrived ? [] : [says];
    return is === was ? [] : [says];
  });
}

/**
 * Compares the report of a run with the job's files.
 * @param before read before the run
 * @returns the differences; empty if report and files agree
 */
export function reportProblems({ status, jobs }: RunReport, before: JobFacts, after: JobFacts): string[] {
  const [report] = jobs;
  if (report === undefined) {
    return after.sequence === before.sequence && after.runs.size === before.runs.size
      ? []
      : [`${status} without a word of the run, and the store went from ${before.sequence} to ${after.sequence}`];
  }
  const problems = [...streamProblems(report, after), ...destinationProblems(report, before, after)];
  const isCommitted = report.streams.some((stream) => stream.status === 'ok');
  if (isCommitted !== after.runs.has(report.run_id))
    problems.push(`the run ${isCommitted ? 'reports a commit' : 'reports none'}, unlike the store`);
  if (!isCommitted && after.sequence !== before.sequence)
    problems.push(`nothing is reported as committed, and the store went from ${before.sequence} to ${after.sequence}`);
  if ((report.sequence ?? 0) !== after.sequence)
    problems.push(`sequence ${report.sequence} is reported, the store has ${after.sequence}`);
  // A stream that is ok and has an error is committed, and not published.
  const saysSo = report.streams.some(({ status: each, error }) => each === 'ok' && error !== null);
  if (!saysSo && after.published !== undefined && after.published.sequence !== after.sequence)
    problems.push(`sequence ${after.published.sequence} is published, the store has ${after.sequence}`);
  return problems;
}

import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { ColumnSet } from '../columns/columns.js';
import { readStateIfUsable, writeStateFile } from '../core/durable.js';
import { runIdPattern } from '../core/run-report.js';
import { fileTexts } from '../core/sql.js';
import { z } from '../core/zod.js';
import type { ChangedValues } from '../snapshot/changed-values.js';
import { isChanged, type StreamCommit } from '../snapshot/commit.js';
import { readManifest } from '../snapshot/manifest.js';
import type { Database } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import { recentReports } from '../storage/reports.js';

const columnSchema = z.object({
  name: z.string(),
  type: z.string(),
  /** Rows of the snapshot without a value; null where that is not known. */
  nulls: z.number().nullable(),
  /** Of the compared rows, those with another value than before; null where nothing was compared. */
  changed: z.number().nullable(),
});

const streamSchema = z.object({
  /** The run that last changed the stream, and when it began. */
  run_id: z.string(),
  synced_at: z.string(),
  rows: z.number(),
  columns: z.array(columnSchema),
  /** The updated rows of this run, and how many of them were compared; null if it updated none. */
  updated: z.object({ rows: z.number(), compared: z.number() }).nullable(),
  /** How many files the counts of nulls are of, and the checksum of the last: files that are added later are counted alone. */
  counted: z.object({ files: z.number(), last: z.string() }).nullable(),
  /** Of a stream that is read by time: the time up to which nothing is missing. */
  covered_to: z.string().nullable(),
});

const figuresSchema = z.object({ version: z.literal(1), streams: z.record(z.string(), streamSchema) });

/** Statistics of a job's streams after a run: columns, missing and changed values. No value of a record is in it. */
export type ColumnFigures = z.infer<typeof figuresSchema>;
export type StreamFigures = z.infer<typeof streamSchema>;
type Counts = Pick<StreamFigures, 'counted'> & { readonly nulls: ReadonlyMap<string, number | undefined> };

/** Where the files are, and what reads them. */
interface Published {
  readonly layout: JobLayout;
  readonly database: Database;
}

/** What one stream did in a run. */
export interface StreamResult {
  readonly name: string;
  /** The commit; undefined without one. */
  readonly commit: StreamCommit | undefined;
  readonly changed: ChangedValues | undefined;
}

/** @returns undefined if the run left none, or if they cannot be read */
export function readColumnFigures(layout: JobLayout, runId: string): Promise<ColumnFigures | undefined> {
  return readStateIfUsable(layout.figures(runId), figuresSchema);
}

/** Of each column that some of the files have, how many of their rows have no value; undefined where a file does not say. */
async function missingIn(
  database: Database,
  paths: readonly string[],
  rows: number,
): Promise<Map<string, number | undefined>> {
  if (paths.length === 0) return new Map();
  const session = await database.connect();
  try {
    const changedRows = await session.rows(
      `SELECT path_in_schema AS name, count(*) = count(stats_null_count) AS is_known,
         ${rows} - sum(row_group_num_rows - stats_null_count) AS missing
       FROM parquet_metadata(${fileTexts(paths)}) GROUP BY ALL`,
    );
    return new Map(
      changedRows.map(({ name, is_known, missing }) => [String(name), is_known === true ? Number(missing) : undefined]),
    );
  } finally {
    session.close();
  }
}

/**
 * The missing values of the published files, by the statistics at their ends. Files that were counted after an earlier run are not
 * looked at again.
 */
async function countNulls(
  { layout, database }: Published,
  stream: string,
  before: StreamFigures | undefined,
): Promise<Counts> {
  const manifest = await readManifest(layout.manifest(stream));
  const all = manifest?.files ?? [];
  const last = all.at(-1)?.sha256;
  if (last === undefined) return { counted: null, nulls: new Map() };
  const { files, last: known } = before?.counted ?? { files: 0, last: '' };
  const isLonger = files > 0 && all[files - 1]?.sha256 === known;
  const nulls = new Map<string, number | undefined>();
  const counted = isLonger ? (before?.rows ?? 0) : 0;
  if (isLonger) for (const { name, nulls: count } of before?.columns ?? []) nulls.set(name, count ?? undefined);
  const added = isLonger ? all.slice(files) : all;
  const rows = added.reduce((all, file) => all + file.rows, 0);
  for (const { path } of added) await layout.remoteFiles?.download(join(layout.stream(stream), path));
  const missing = await missingIn(
    database,
    added.map(({ path }) => join(layout.stream(stream), path)),
    rows,
  );
  // A column that some files lack has no value in their rows.
  for (const name of nulls.keys()) if (!missing.has(name)) missing.set(name, rows);
  for (const [name, count] of missing) nulls.set(name, sum(nulls.has(name) ? nulls.get(name) : counted, count));
  return { counted: { files: all.length, last }, nulls };
}

function sum(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a + b;
}

function coveredTo({ covered, task }: StreamCommit): string | null {
  const spans = covered ?? task.previous?.covered ?? [];
  return spans.at(-1)?.to ?? null;
}

async function figuresOf(
  published: Published,
  { commit, changed, name }: StreamResult & { readonly commit: StreamCommit },
  before: StreamFigures | undefined,
): Promise<StreamFigures> {
  const { task } = commit;
  const stamp = { run_id: task.runId, synced_at: task.syncedAt };
  const { run_id, synced_at } = isChanged(commit) ? stamp : (task.previous ?? stamp);
  const { counted, nulls } = await countNulls(published, name, before);
  const columns = ColumnSet.restore(task.columns).list.map((column) => ({
    name: column.name,
    type: column.type,
    nulls: nulls.get(column.name) ?? null,
    changed: changed?.columns.get(column.name) ?? null,
  }));
  return {
    run_id,
    synced_at,
    rows: task.rows,
    columns,
    updated: changed === undefined ? null : { rows: changed.updated, compared: changed.compared },
    counted,
    covered_to: coveredTo(commit),
  };
}

/** The earlier figures that stay if the run did not change the stream. */
function unchanged(before: StreamFigures, commit: StreamCommit | undefined): StreamFigures {
  const columns = before.columns.map((column) => ({ ...column, changed: null }));
  const covered = commit === undefined ? before.covered_to : coveredTo(commit);
  return { ...before, columns, updated: null, covered_to: covered };
}

async function newestFigures(layout: JobLayout): Promise<ColumnFigures | undefined> {
  const ids = (await readdir(layout.figuresFolder).catch(() => [] as string[])).map((name) => name.slice(0, -5));
  const last = (await recentReports(layout, 30)).map(({ jobs }) => jobs[0]?.run_id ?? '');
  const newest =
    last.find((id) => ids.includes(id)) ??
    ids
      .filter((id) => runIdPattern.test(id))
      .sort()
      .at(-1);
  return newest === undefined ? undefined : readColumnFigures(layout, newest);
}

/** Moves the statistics of some streams to another run. */
export async function moveColumnFigures(
  layout: JobLayout,
  { from, to, streams }: { readonly from: string; readonly to: string; readonly streams: readonly string[] },
): Promise<void> {
  const [added, before] = [await readColumnFigures(layout, from), await readColumnFigures(layout, to)];
  if (added === undefined) return;
  const moved = Object.entries(added.streams).filter(([name]) => streams.includes(name));
  const all = { ...before?.streams, ...Object.fromEntries(moved) };
  await writeStateFile(layout.figures(to), { version: 1, streams: all } satisfies ColumnFigures);
  await rm(layout.figures(from), { force: true });
}

/**
 * Keeps the statistics of the streams after a run. Of streams that the run did not change it repeats those of the run before,
 * so that such a run costs next to nothing. Call it with the job's lock, after the commit is published.
 */
export async function keepColumnFigures(
  published: Published,
  runId: string,
  results: readonly StreamResult[],
): Promise<void> {
  const { layout } = published;
  const before = await newestFigures(layout);
  const streams: Record<string, StreamFigures> = { ...before?.streams };
  for (const [name, counted] of Object.entries(streams)) streams[name] = unchanged(counted, undefined);
  for (const result of results) {
    const { name, commit } = result;
    const counted = before?.streams[name];
    if (commit === undefined) continue;
    const isCurrent = counted !== undefined && !isChanged(commit) && counted.run_id === commit.task.previous?.run_id;
    streams[name] = isCurrent ? unchanged(counted, commit) : await figuresOf(published, { ...result, commit }, counted);
  }
  await mkdir(layout.figuresFolder, { recursive: true, mode: 0o700 });
  await writeStateFile(layout.figures(runId), { version: 1, streams } satisfies ColumnFigures);
}

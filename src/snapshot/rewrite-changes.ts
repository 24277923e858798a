import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { holdNegativeZero, type StoredColumn } from '../columns/columns.js';
import { widen } from '../columns/widen.js';
import { sqlText } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import { type ParquetCompression, writeParquet } from '../storage/parquet.js';
import { readFeed } from './feed.js';
import { runsWithChanges } from './history.js';
import { rangesOf, rowBytesOf } from './large-rows.js';
import { newFile, snapshotFileName } from './snapshot-folder.js';
import type { SnapshotStore } from './snapshot-store.js';
import { changesTable } from './store-tables.js';
import type { RewrittenChanges, StreamState } from './stream-state.js';

/** SQL for the changes of one run, as their file has them. */
export async function changesOfRun(
  session: Session,
  { stream, columns, runId, rowBytes }: ChangesOfRun,
): Promise<string> {
  const table = changesTable(stream);
  const where = `_run_id = ${sqlText(runId)}`;
  const ranges = await rangesOf(session, { table, rowBytes, where });
  const select = `SELECT _op, _run_id, _synced_at, ${widen(columns, columns, 'file')} FROM ${table} WHERE ${where}`;
  return ranges.map((range) => `${select} AND ${range}`).join(' UNION ALL ');
}

interface ChangesOfRun {
  readonly stream: string;
  readonly columns: readonly StoredColumn[];
  readonly runId: string;
  /** Of {@link rowBytesOf}. */
  readonly rowBytes: number;
}

interface RewriteTask {
  readonly layout: JobLayout;
  /** The run that removes values. */
  readonly runId: string;
  readonly state: { readonly stream: string; readonly first?: StreamState['first'] };
  /** The columns of the store's tables as they are now. */
  readonly columns: readonly StoredColumn[];
  /** Changes before this time may be gone from the store: ISO 8601. */
  readonly horizon: string;
  /** The private folder for new files. */
  readonly folder: string;
  readonly compression: ParquetCompression;
}

/**
 * Writes the changes that the feed names again, from the store, after values were removed there. Otherwise a destination that has
 * missed a run could not continue after a `forget`, or after a rule that hides values.
 */
export async function rewriteChanges(store: SnapshotStore, task: RewriteTask): Promise<RewrittenChanges | undefined> {
  const { layout, runId, state, columns, horizon, folder, compression } = task;
  const feed = await readFeed(layout, state.stream).catch(() => undefined);
  // Without Parquet files there is nothing to continue.
  if (feed === undefined || feed.snapshot.length === 0 || feed.store_id !== (await store.state()).id) return undefined;
  // Changes may be gone that are younger than the horizon: the history may have been shorter.
  const stored = await runsWithChanges(store, state.stream);
  const isKept = ({ run_id, synced_at }: { run_id: string; synced_at: string }) =>
    synced_at >= horizon && stored.has(run_id) && run_id !== state.first?.run_id;
  const lastGone = feed.changes.findLastIndex((commit) => !isKept(commit));
  const gone = feed.changes[lastGone];
  const since = gone ?? { sequence: feed.complete_since, run_id: feed.complete_since_run };
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const files = [...feed.snapshot.map(({ path }) => path), ...feed.changes.flatMap((commit) => commit.files)];
  const rowBytes = await rowBytesOf(
    store.session,
    files.map((path) => join(layout.stream(state.stream), path)),
  );
  const form = { compression, keepsZeroSigns: holdNegativeZero(columns), rowBytes };
  const commits: RewrittenChanges['commits'] = [];
  for (const { run_id, sequence, synced_at } of feed.changes.slice(lastGone + 1)) {
    const rows = await changesOfRun(store.session, { stream: state.stream, columns, runId: run_id, rowBytes });
    const written = await writeParquet(store.session, rows, join(folder, `changes-${run_id}.parquet`), form);
    const kept =
      written.rows === 0
        ? []
        : [await newFile(layout, written, `changes/${run_id}/${snapshotFileName(runId, 0, false)}`)];
    commits.push({ run_id, sequence, synced_at, files: kept });
  }
  return { since: { sequence: since.sequence, run_id: since.run_id }, commits };
}

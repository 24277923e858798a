import { mkdir, rename, rm, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { holdNegativeZero } from '../columns/columns.js';
import { widen } from '../columns/widen.js';
import { sha256OfFile, statOrUndefined, syncFolder } from '../core/durable.js';
import type { JobLayout } from '../storage/layout.js';
import { type ParquetCompression, type ParquetForm, writeParquet } from '../storage/parquet.js';
import { type Feed, type FeedChanges, filesOf, readFeed, withColumns, withoutRepeats, writeFeed } from './feed.js';
import { rangesOf, storedRowBytes } from './large-rows.js';
import { changesOfRun } from './rewrite-changes.js';
import { newFile } from './snapshot-folder.js';
import type { SnapshotStore } from './snapshot-store.js';
import { changesTable, storeTable } from './store-tables.js';
import type { CommittedFile, StreamState } from './stream-state.js';

interface RestoreOptions {
  /** Whether to read each file and compare it with its checksum. */
  readonly thorough: boolean;
  readonly compression: ParquetCompression;
}

/**
 * Whether a file, published or not, is as it was committed: it has its length, and has not been written since. If it has, or if
 * `thorough`, its checksum decides.
 */
async function isThere(layout: JobLayout, stream: string, file: CommittedFile, thorough: boolean): Promise<boolean> {
  for (const path of [join(layout.stream(stream), file.path), join(layout.folder, file.from)]) {
    const stats = await statOrUndefined(path);
    const remote = layout.remoteFiles?.find(path);
    if (stats === undefined && remote !== undefined) return remote.sha256 === file.sha256;
    if (stats === undefined) continue;
    if (stats.size !== file.bytes) return false;
    const { changed_ms: noted = Math.floor(stats.mtimeMs) } = file;
    const isTouched = Math.floor(stats.mtimeMs) !== noted;
    if (!thorough && !isTouched) return true;
    if ((await sha256OfFile(path)) !== file.sha256) return false;
    // A copy of the storage folder may have new times: read each file once, not in each run. The middle of the millisecond is safe
    // from rounding.
    if (isTouched) await utimes(path, stats.atime, (noted + 0.5) / 1000).catch(() => undefined);
    return true;
  }
  return false;
}

async function someLack(
  layout: JobLayout,
  stream: string,
  files: readonly CommittedFile[],
  thorough: boolean,
): Promise<boolean> {
  for (const file of files) if (!(await isThere(layout, stream, file, thorough))) return true;
  return false;
}

/** Writes rows of the store into one file. Publishing moves it to `path`. */
async function rewriteFromStore(
  store: SnapshotStore,
  layout: JobLayout,
  query: string,
  { name, path, form }: { name: string; path: string; form: ParquetForm },
): Promise<CommittedFile> {
  await mkdir(layout.restored, { recursive: true, mode: 0o700 });
  const written = await writeParquet(store.session, query, join(layout.restored, name), form);
  return newFile(layout, written, path);
}

async function restoreStream(
  store: SnapshotStore,
  layout: JobLayout,
  state: StreamState,
  { thorough, compression }: RestoreOptions,
): Promise<StreamState | undefined> {
  const { stream, columns, run_id: runId } = state;
  const lacksRows = await someLack(layout, stream, state.snapshot, thorough);
  const lacksChanges = await someLack(layout, stream, state.changes, thorough);
  if (!lacksRows && !lacksChanges) return undefined;
  const selected = widen(columns, columns, 'file');
  const formOf = (rowBytes: number) => ({ compression, keepsZeroSigns: holdNegativeZero(columns), rowBytes });
  let { snapshot, changes } = state;
  if (lacksRows) {
    const path = `snapshot/${runId}/00001.parquet`;
    const table = storeTable(stream);
    const rowBytes = await storedRowBytes(store.session, table, state);
    const ranges = await rangesOf(store.session, { table, rowBytes });
    const query = ranges.map((range) => `SELECT ${selected} FROM ${table} WHERE ${range}`).join(' UNION ALL ');
    const form = formOf(rowBytes);
    snapshot = [await rewriteFromStore(store, layout, query, { name: `${stream}.parquet`, path, form })];
  }
  if (lacksChanges) {
    const path = `changes/${runId}/00001.parquet`;
    const rowBytes = await storedRowBytes(store.session, changesTable(stream), state);
    const query = await changesOfRun(store.session, { stream, columns, runId, rowBytes });
    const form = formOf(rowBytes);
    const file = await rewriteFromStore(store, layout, query, { name: `${stream}.changes.parquet`, path, form });
    // Changes older than `publish.history` are no longer in the store: their file cannot be restored.
    changes = file.rows < state.changes.reduce((sum, { rows }) => sum + rows, 0) ? [] : [file];
  }
  // A plain glob must not find old files beside the new one. The manifest and the link go first, so that they never name a removed file.
  await rm(layout.manifest(stream), { force: true });
  await rm(layout.current(stream), { force: true });
  const old = [...(lacksRows ? state.snapshot : []), ...(lacksChanges ? state.changes : [])];
  for (const path of old.map((file) => join(layout.stream(stream), file.path))) {
    await rm(path, { force: true });
    layout.remoteFiles?.drop(path);
  }
  const restored = { ...state, snapshot, changes };
  await store.rememberStream(restored);
  return restored;
}

/**
 * Rewrites Parquet files of the last snapshots from the store if some are gone, or differ from the committed ones; see `isThere`. Publishing then moves them to their place. If that fails, this may be repeated.
 * @returns the streams with rewritten files, as the store now has them
 */
export async function restoreFiles(
  store: SnapshotStore,
  layout: JobLayout,
  states: Iterable<StreamState>,
  options: RestoreOptions,
): Promise<StreamState[]> {
  const restored: StreamState[] = [];
  for (const state of states) {
    const again = await restoreStream(store, layout, state, options);
    if (again !== undefined) restored.push(again);
  }
  return restored;
}

async function isWhole(layout: JobLayout, stream: string, { files, sha256 }: FeedChanges): Promise<boolean> {
  for (const [index, file] of files.entries()) {
    const path = join(layout.stream(stream), file);
    if ((await statOrUndefined(path)) === undefined) {
      if (layout.remoteFiles?.find(path) === undefined) return false;
    } else if (sha256 !== undefined && (await sha256OfFile(path)) !== sha256[index]) return false;
  }
  return true;
}

/** Writes the changes of an earlier run from the store; undefined if the store no longer has all of them. */
async function restored(
  store: SnapshotStore,
  { layout, compression }: RestoreTask,
  state: StreamState,
  { run_id: runId, rows }: FeedChanges,
): Promise<CommittedFile | undefined> {
  const { stream, columns } = state;
  if (rows === 0) return undefined;
  const rowBytes = await storedRowBytes(store.session, changesTable(stream), state);
  const query = await changesOfRun(store.session, { stream, columns, runId, rowBytes });
  if ((await store.session.number(`SELECT count(*) FROM (${query})`)) !== rows) return undefined;
  const form = { compression, keepsZeroSigns: holdNegativeZero(columns), rowBytes };
  const path = `changes/${runId}/00001.parquet`;
  return rewriteFromStore(store, layout, query, { name: `${stream}.${runId}.parquet`, path, form });
}

interface RestoreTask {
  readonly layout: JobLayout;
  readonly compression: ParquetCompression;
}

/**
 * Writes Parquet files with the changes of earlier runs again if they are missing or damaged. If the store no longer has the
 * changes of such a run, that run and those before it leave the feed: a destination that needs them is loaded whole.
 * @returns whether there were any
 */
export async function restoreEarlierChanges(
  store: SnapshotStore,
  task: RestoreTask,
  state: StreamState,
): Promise<boolean> {
  const { layout } = task;
  const { stream } = state;
  const feed: Feed | undefined = await readFeed(layout, stream).catch(() => undefined);
  if (feed?.run_id !== state.run_id || feed.store_id !== (await store.state()).id) return false;
  const changes = withColumns(feed);
  let gone = -1;
  let isChanged = false;
  for (const [index, entry] of changes.slice(0, -1).entries()) {
    if (await isWhole(layout, stream, entry)) continue;
    isChanged = true;
    const file = await restored(store, task, state, entry);
    const folder = layout.changes(stream, entry.run_id);
    await rm(folder, { recursive: true, force: true });
    if (file === undefined) gone = index;
    else {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      await rename(join(layout.folder, file.from), join(layout.stream(stream), file.path));
      await syncFolder(folder);
      changes[index] = { ...entry, ...filesOf([file]), columns: state.columns };
    }
    // It is gone too if someone has removed everything of the stream.
    if ((await statOrUndefined(dirname(folder))) !== undefined) await syncFolder(dirname(folder));
  }
  if (!isChanged) return false;
  const since = changes[gone] ?? { sequence: feed.complete_since, run_id: feed.complete_since_run };
  await writeFeed(layout, {
    ...feed,
    changes: withoutRepeats(changes.slice(gone + 1), feed.columns),
    complete_since: since.sequence,
    complete_since_run: since.run_id,
  });
  return true;
}

import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { holdNegativeZero } from '../columns/columns.js';
import { sha256OfFile, statOrUndefined, syncFolder } from '../storage/durable.js';
import type { JobLayout } from '../storage/layout.js';
import type { ParquetCompression } from '../storage/parquet.js';
import { type Feed, type FeedChanges, readFeed, writeFeed } from './feed.js';
import { filesOf, withColumns, withoutRepeats } from './publish-feed.js';
import { rewriteFromStore } from './restore-files.js';
import { changesOfRun } from './rewrite-changes.js';
import type { SnapshotStore } from './snapshot-store.js';
import type { CommittedFile, StreamState } from './stream-state.js';

async function isWhole(layout: JobLayout, stream: string, { files, sha256 }: FeedChanges): Promise<boolean> {
  for (const [index, file] of files.entries()) {
    const path = join(layout.stream(stream), file);
    if ((await statOrUndefined(path)) === undefined) {
      if (layout.elsewhere?.find(path) === undefined) return false;
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
  const query = changesOfRun(stream, columns, runId);
  if (rows === 0 || (await store.session.number(`SELECT count(*) FROM (${query})`)) !== rows) return undefined;
  const form = { compression, keepsZeroSigns: holdNegativeZero(columns) };
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
    // It is gone too if somebody has removed everything of the stream.
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

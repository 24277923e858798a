import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { columnsSchema } from '../columns/columns.js';
import { narrows } from '../columns/widen.js';
import { readStateFile, type StateFile, writeStateFile } from '../core/durable.js';
import { storedName, storedPath } from '../core/stored-texts.js';
import { z } from '../core/zod.js';
import type { JobLayout } from '../storage/layout.js';
import type { StoreState } from './snapshot-store.js';
import type { CommittedFile, StreamState } from './stream-state.js';

/** Feeds of earlier builds have no checksum. */
const fileSchema = z.object({ path: storedPath, rows: z.number(), sha256: z.string().optional() });

const changesSchema = z.object({
  run_id: storedName,
  sequence: z.number(),
  synced_at: z.string(),
  rows: z.number(),
  /** Relative to `parquet/<stream>/`; empty if the job keeps no Parquet files. */
  files: z.array(storedPath),
  /** Of these files, in their order. */
  sha256: z.array(z.string()),
  /** Columns of the files; left out if they equal those of the next run. */
  columns: columnsSchema.optional(),
});

const feedSchema = z.object({
  version: z.literal(1),
  stream: storedName,
  store_id: z.string(),
  run_id: storedName,
  sequence: z.number(),
  synced_at: z.string(),
  rows: z.number(),
  key: z.array(z.string()),
  columns: columnsSchema,
  definition: z.record(z.string(), z.string()),
  /** Paths are relative to `parquet/<stream>/`; empty if the job keeps no Parquet files. */
  snapshot: z.array(fileSchema),
  /** The changes of every run after `complete_since`, the oldest first; none of a first load, whose rows are in `snapshot`. */
  changes: z.array(changesSchema),
  /** A destination that has this sequence, or a later one, needs only `changes`. */
  complete_since: z.number(),
  /** The run that made the snapshot of `complete_since`; null if it is not known. With the runs of `changes` it makes the lineage. */
  complete_since_run: storedName.nullable(),
  /** SHA-256 of all the rest, as JSON. Each file has it. */
  checksum: z.string().optional(),
});

/**
 * A stream's data for destinations: its present snapshot and the changes that led to it. Written when the commit is
 * published, so that a delivery needs neither the store nor the job's lock.
 */
export type Feed = z.infer<typeof feedSchema>;
export type FeedChanges = z.infer<typeof changesSchema>;

function checksumOf({ checksum: _, ...rest }: Feed): string {
  return createHash('sha256').update(JSON.stringify(rest)).digest('hex');
}

const feedFile: StateFile<Feed> = {
  schema: feedSchema.refine((feed) => feed.checksum === checksumOf(feed)),
  hint: 'remove it; the next run writes it again, and destinations are then compared in full',
};

/**
 * @returns undefined if nothing of the stream has been published yet
 * @throws {CdsyncError} `state_unreadable`
 */
export function readFeed(layout: JobLayout, stream: string): Promise<Feed | undefined> {
  return readStateFile(layout.feed(stream), feedFile);
}

export async function writeFeed(layout: JobLayout, feed: Feed): Promise<void> {
  const path = layout.feed(feed.stream);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeStateFile(path, { ...feed, checksum: checksumOf(feedSchema.parse(JSON.parse(JSON.stringify(feed)))) });
}

/** As many of the last changes as a delivery is late by, nearly always: a look into each of hundreds of files takes time. */
const maxLate = 10;

/** Paths of a feed's files, of its last changes only; in a bucket, some are not here. */
export function localFiles(layout: JobLayout, { stream, snapshot, changes }: Feed): string[] {
  const files = [...snapshot.map(({ path }) => path), ...changes.slice(-maxLate).flatMap((commit) => commit.files)];
  return files.map((path) => join(layout.stream(stream), path));
}

/** The run that made the snapshot of a number; undefined if the feed does not reach back that far, or does not know. */
export function runOfSnapshot(feed: Feed, sequence: number): string | undefined {
  if (sequence === feed.sequence) return feed.run_id;
  if (sequence === feed.complete_since) return feed.complete_since_run ?? undefined;
  return feed.changes.find((commit) => commit.sequence === sequence)?.run_id;
}

/** Files as the feed lists them. */
export function filesOf(files: readonly CommittedFile[]): Pick<FeedChanges, 'files' | 'sha256'> {
  return { files: files.map(({ path }) => path), sha256: files.map(({ sha256 }) => sha256) };
}

/** The changes of a stream's last commit. */
function lastChanges({ run_id, sequence, synced_at, changes, columns }: StreamState): FeedChanges {
  const rows = changes.reduce((sum, file) => sum + file.rows, 0);
  return { run_id, sequence, synced_at, rows, ...filesOf(changes), columns };
}

function rewrittenChanges({ rewritten_changes, columns }: StreamState): FeedChanges[] {
  return (rewritten_changes?.commits ?? []).map(({ files, ...commit }) => ({
    ...commit,
    rows: files.reduce((sum, { rows }) => sum + rows, 0),
    ...filesOf(files),
    columns,
  }));
}

/**
 * Whether the commit is known by its changes. Of a first load there are none, and of a commit whose file was lost with the history of the
 * store; an erasure has none because its keys are delivered apart.
 */
function hasChanges({ changes, rewritten }: StreamState): boolean {
  return changes.length > 0 || rewritten === true;
}

/** The earlier changes in the feed, with their columns; none if the new commit does not continue them. */
function earlierChanges(feed: Feed | undefined, storeId: string, state: StreamState): FeedChanges[] {
  if (feed?.store_id !== storeId || feed.sequence >= state.sequence) return [];
  // The files of earlier changes still have rows that a rewritten stream has lost: others take their place.
  if (state.rewritten === true) return rewrittenChanges(state);
  // Changes may reach further back than the store, so no one knows whether their texts fit.
  if (narrows(feed.columns, state.columns)) return [];
  return withColumns(feed);
}

/** All changes in a feed, each with the columns of its files. */
export function withColumns(feed: Feed): FeedChanges[] {
  let following = feed.columns;
  const filled: FeedChanges[] = [];
  for (const entry of [...feed.changes].reverse()) {
    following = entry.columns ?? following;
    filled.unshift({ ...entry, columns: following });
  }
  return filled;
}

/** Leaves out the columns of an entry if the next entry, or for the last one the feed, has the same. */
export function withoutRepeats(changes: readonly FeedChanges[], columns: Feed['columns']): FeedChanges[] {
  let following = JSON.stringify(columns);
  return [...changes]
    .reverse()
    .map(({ columns: columnsOfEntry, ...entry }) => {
      const text = JSON.stringify(columnsOfEntry);
      if (text === following) return entry;
      following = text;
      return { ...entry, columns: columnsOfEntry };
    })
    .reverse();
}

/**
 * Updates a stream's feed to its last commit. Repeating it does no harm.
 * @param changesBefore the first characters of a run id: changes of runs with smaller ids leave the feed
 */
export async function publishFeed(
  layout: JobLayout,
  { id }: StoreState,
  state: StreamState,
  changesBefore: string,
): Promise<void> {
  const feed = await readFeed(layout, state.stream).catch(() => undefined);
  const snapshot = state.snapshot.map(({ path, rows, sha256 }) => ({ path, rows, sha256 }));
  const own = hasChanges(state) ? [lastChanges(state)] : [];
  if (feed?.store_id === id && feed.run_id === state.run_id && feed.sequence === state.sequence) {
    const described = [feed.snapshot, feed.changes.at(-1)?.files];
    if (JSON.stringify(described) === JSON.stringify([snapshot, own[0]?.files])) return;
    // The same commit in other files: they were restored from the store, as far as it still had the rows.
    const restored = { changes: withoutRepeats([...feed.changes.slice(0, -1), ...own], state.columns) };
    const isLost = own.length === 0;
    await writeFeed(layout, { ...feed, snapshot, ...(isLost ? everythingUpTo(state) : restored) });
    return;
  }
  const earlier = earlierChanges(feed, id, state);
  const lastGone = earlier.findLastIndex(({ run_id }) => run_id < changesBefore);
  const kept = earlier.slice(lastGone + 1);
  const since = completeSince(feed, id, state, { earlier, last: earlier[lastGone] });
  const complete = { complete_since: since.sequence, complete_since_run: since.run_id };
  const changes = withoutRepeats([...kept, ...own], state.columns);
  await writeFeed(layout, {
    version: 1,
    stream: state.stream,
    store_id: id,
    run_id: state.run_id,
    sequence: state.sequence,
    synced_at: state.synced_at,
    rows: state.rows,
    key: state.key,
    columns: state.columns,
    definition: state.definition,
    snapshot,
    ...(own.length === 0 ? everythingUpTo(state) : { changes, ...complete }),
  });
}

/** A destination that has not this commit, or a later one, needs all rows. */
function everythingUpTo({ sequence, run_id }: StreamState) {
  return { changes: [], complete_since: sequence, complete_since_run: run_id };
}

/** The snapshot from which on the feed has every change. */
function completeSince(
  feed: Feed | undefined,
  storeId: string,
  state: StreamState,
  { earlier, last }: { readonly earlier: readonly FeedChanges[]; readonly last: FeedChanges | undefined },
): { readonly sequence: number; readonly run_id: string | null } {
  if (last !== undefined) return last;
  if (feed?.store_id !== storeId || feed.sequence >= state.sequence)
    return { sequence: state.sequence - 1, run_id: null };
  // Without earlier changes, those of the last commit apply to the snapshot before it.
  if (earlier.length === 0) return feed;
  if (state.rewritten_changes !== undefined) return state.rewritten_changes.since;
  return { sequence: feed.complete_since, run_id: feed.complete_since_run };
}

import { join } from 'node:path';
import { ColumnSet, columnPath, countLeaves } from '../columns/columns.js';
import { sqlText } from '../core/sql.js';
import { areLarge } from '../storage/large-rows.js';
import type { JobLayout } from '../storage/layout.js';
import type { ParquetFile } from '../storage/parquet.js';
import { type ApplyTask, applyStream, firstCommitOf, isPatch } from './apply.js';
import type { CacheUpdate } from './cache-update.js';
import { commentStream, fitComments } from './comments.js';
import { changesDefinition, hashesComparable, removesValues } from './diff.js';
import { nextCommitTime, pruneHistory, recordCommitTime } from './history.js';
import { defineHistory } from './history-views.js';
import { hasLargeTexts, largeBytes } from './large-texts.js';
import { rewriteChanges } from './rewrite-changes.js';
import { SnapshotWriter } from './snapshot-files.js';
import { linkedFiles, newFile, snapshotFileName } from './snapshot-folder.js';
import type { SnapshotStore } from './snapshot-store.js';
import { storeTable } from './store-tables.js';
import type { CommittedFile, CoveredSpan, QueryReading, RewrittenChanges, StreamState } from './stream-state.js';
import type { WorkTables } from './unify-parts.js';

/** A rejected record, as the published store shows it. */
export interface CommittedReject {
  readonly key: string | null;
  readonly column: string | null;
  readonly reason: string;
}

/** One stream of a commit. */
export interface StreamCommit {
  /** The kind of the stream's source. */
  readonly source: string;
  readonly task: ApplyTask;
  readonly tables: WorkTables;
  /** Files with the changes; none of a first snapshot. */
  readonly changes: readonly ParquetFile[];
  readonly duplicates: number;
  /** Bytes of the longest record, or more. */
  readonly maxRecordBytes: number;
  /** Rows that the stream's contract left out. */
  readonly discarded: number;
  /** Values that it made NULL. */
  readonly discardedValues: number;
  readonly rejects: readonly CommittedReject[];
  /** Records that could not be kept; {@link rejects} has values too. */
  readonly rejected: number;
  /** Rows of forgotten people that the service returned and that were left out. */
  readonly forgotten?: number;
  /** For a stream that is read in windows: the spans of time that need no further reading. */
  readonly covered: readonly CoveredSpan[] | undefined;
  /** For a query: its reading. */
  readonly reading?: Omit<QueryReading, 'run_id'> | undefined;
  /** What defines the stream, as digests. */
  readonly definition: Readonly<Record<string, string>>;
  /** The next run's record cache: the one that this run has written, the one before, or none. */
  readonly known: CacheUpdate | 'unchanged' | 'none';
}

export interface RunCommit {
  readonly layout: JobLayout;
  readonly runId: string;
  readonly startedAt: string;
  readonly finishedAt: string;
  readonly status: string;
  /** Of the previous commit. */
  readonly sequence: number;
  readonly streams: readonly StreamCommit[];
  /** Whether to keep snapshots as Parquet files too. */
  readonly parquet: boolean;
  /** The store keeps changes from here on: ISO 8601. */
  readonly historyFrom: string;
  /** How many columns one transaction may write. A commit of more is divided; see {@link SnapshotStore.inCopy}. */
  readonly columnsAtOnce: number;
  /** Stops the commit as long as it does not count. */
  readonly signal: AbortSignal;
  /** Work in the store's session that is not part of the commit, done while files of snapshots are being written. */
  readonly meanwhile?: (() => Promise<void>) | undefined;
}

/** Whether the stream differs from the previous snapshot; a first snapshot always does. */
export function isChanged({ task }: StreamCommit): boolean {
  const { inserted, updated, deleted, refreshed } = task.difference;
  return task.previous === undefined || inserted + updated + deleted + refreshed > 0 || changesDefinition(task);
}

/**
 * Columns of a stream that DuckDB has in memory until the commit: of a first one those of its rows; later ones write rows, changes and
 * earlier rows, and have been compared by tables of their own.
 */
export function columnsWritten(commit: StreamCommit): number {
  if (!isChanged(commit)) return 0;
  const { previous, columns } = commit.task;
  return (previous === undefined ? 1 : 4) * countLeaves(columns);
}

/** @param written the files that the previous snapshot lacks */
async function snapshotFiles(
  { layout, runId }: RunCommit,
  { task }: StreamCommit,
  written: readonly ParquetFile[],
): Promise<CommittedFile[]> {
  const { stream, addition, previous } = task;
  const isWhole = addition === undefined && written.length === 1;
  const added = await Promise.all(
    written.map((file, index) => newFile(layout, file, `snapshot/${runId}/${snapshotFileName(runId, index, isWhole)}`)),
  );
  return addition === undefined
    ? added
    : [...linkedFiles(layout, { stream, runId }, previous?.snapshot ?? []), ...added];
}

function changeFiles({ layout, runId }: RunCommit, changes: readonly ParquetFile[]): Promise<CommittedFile[]> {
  return Promise.all(
    changes.map((file, index) => newFile(layout, file, `changes/${runId}/${snapshotFileName(runId, index, true)}`)),
  );
}

async function newState(
  run: RunCommit,
  commit: StreamCommit,
  {
    sequence,
    written,
    isLarge,
    rewritten,
  }: {
    sequence: number;
    written: readonly ParquetFile[];
    isLarge: boolean;
    rewritten: RewrittenChanges | undefined;
  },
): Promise<StreamState> {
  const { runId, parquet } = run;
  const { task, changes, covered, definition } = commit;
  return {
    stream: task.stream,
    run_id: runId,
    sequence,
    synced_at: task.syncedAt,
    rows: task.rows,
    key: [...task.key],
    columns: [...task.columns],
    hash_version: task.hashVersion,
    snapshot: parquet ? await snapshotFiles(run, commit, written) : [],
    changes: parquet ? await changeFiles(run, changes) : [],
    definition: { ...definition },
    first: firstCommitOf(task),
    ...(isLarge ? { large_texts: true as const } : {}),
    ...(task.previous?.forgotten ? { forgotten: true as const } : {}),
    ...(removesValues(task) ? { rewritten: true as const } : {}),
    ...(rewritten === undefined ? {} : { rewritten_changes: rewritten }),
    ...(covered === undefined ? {} : { covered: [...covered] }),
    ...readingOf(commit, runId),
  };
}

/** The member of a stream's state about what its query read. */
function readingOf({ reading }: StreamCommit, runId: string): Pick<StreamState, 'reading'> {
  return reading === undefined ? {} : { reading: { ...reading, run_id: runId } };
}

/** @returns the first run that had each column, by its path */
async function recordColumns(store: SnapshotStore, { task }: StreamCommit): Promise<ReadonlyMap<string, string>> {
  const table = storeTable('columns', 'cdsync');
  const stream = sqlText(task.stream);
  const rows = await store.session.rows(`SELECT path, since_run FROM ${table} WHERE stream = ${stream}`);
  const since = new Map(rows.map(({ path, since_run }) => [String(path), String(since_run)]));
  await store.session.run(`DELETE FROM ${table} WHERE stream = ${stream}`);
  const values = ColumnSet.restore(task.columns).list.map((column) => {
    const path = columnPath(column);
    // The name of an attribute may contain NUL, but SQL text cannot.
    const shown = [path.replaceAll('\0', '\\0'), column.name, column.type, since.get(path) ?? task.runId];
    return `(${[task.stream, ...shown].map(sqlText).join(', ')})`;
  });
  if (values.length > 0) await store.session.run(`INSERT INTO ${table} VALUES ${values.join(', ')}`);
  return since;
}

async function recordRejects(store: SnapshotStore, { task, rejects }: StreamCommit): Promise<void> {
  const text = (value: string | null) => (value === null ? 'NULL' : sqlText(value.replaceAll('\0', '\\0')));
  for (let from = 0; from < rejects.length; from += 1000) {
    const values = rejects
      .slice(from, from + 1000)
      .map(({ key, column, reason }) => `(${[task.runId, task.stream, key, column, reason].map(text).join(', ')})`);
    await store.session.run(`INSERT INTO ${storeTable('rejects', 'cdsync')} VALUES ${values.join(', ')}`);
  }
}

async function recordStream(store: SnapshotStore, commit: StreamCommit, sequence: number): Promise<void> {
  const { task, duplicates, rejected } = commit;
  const { inserted, updated, deleted, unchanged } = task.difference;
  const counts = [task.rows, inserted, updated, deleted, unchanged, duplicates, rejected];
  await store.session.run(
    `INSERT INTO ${storeTable('streams', 'cdsync')} VALUES (${sqlText(task.runId)}, ${sqlText(task.stream)}, ${sequence},
       ${isChanged(commit)}, ${counts.join(', ')}, true)`,
  );
  await recordRejects(store, commit);
}

interface CommitStep {
  readonly commit: StreamCommit;
  /** Whether columns get comments. */
  readonly describesColumns: boolean;
  readonly sequence: number;
  readonly writer: SnapshotWriter;
  /** The streams with large texts. */
  readonly large: ReadonlySet<string>;
  readonly committedAt: string;
}

/** The changes of earlier commits, without the values that this one removes. */
function rewrittenChanges(
  store: SnapshotStore,
  { layout, runId, historyFrom: horizon }: RunCommit,
  task: ApplyTask,
): Promise<RewrittenChanges | undefined> {
  const { stream, columns, compression } = task;
  const state = { stream, first: firstCommitOf(task) };
  const folder = join(layout.streamRun(runId, stream), 'parts');
  return rewriteChanges(store, { layout, runId, state, columns, horizon, folder, compression });
}

/** Applies a stream to the store, and notes its new state. */
async function commitStream(
  store: SnapshotStore,
  run: RunCommit,
  { commit, describesColumns, sequence, writer, large, committedAt }: CommitStep,
): Promise<void> {
  const { task, covered, definition } = commit;
  if (!isChanged(commit)) {
    const previous = task.previous;
    const moved = covered === undefined ? {} : { covered: [...covered] };
    if (previous === undefined) return;
    const reading = readingOf(commit, previous.run_id);
    await store.rememberStream({ ...previous, ...moved, ...reading, definition: { ...definition } });
    return;
  }
  if (!isPatch(task)) await writer.filesOf(task.stream);
  await applyStream(store, task, commit.tables);
  const written = await writer.filesOf(task.stream);
  const rewritten = run.parquet && removesValues(task) ? await rewrittenChanges(store, run, task) : undefined;
  const state = await newState(run, commit, { sequence, written, isLarge: large.has(task.stream), rewritten });
  await store.rememberStream(state);
  if (!hasSameColumns(task)) await defineHistory(store.session, state);
  if (needsComments(task)) {
    const since = await recordColumns(store, commit);
    await commentStream(store, state, { job: run.layout.job, source: commit.source, since, describesColumns });
  }
  await recordCommitTime(store, state, committedAt);
}

/** Whether the views of a stream's past, and the comments on columns, are as they must be. */
function hasSameColumns({ previous, key, columns }: ApplyTask): boolean {
  return previous !== undefined && JSON.stringify([previous.key, previous.columns]) === JSON.stringify([key, columns]);
}

/** A table that is written again has lost its comments. */
function needsComments(task: ApplyTask): boolean {
  return !hasSameColumns(task) || !isPatch(task) || !hashesComparable(task);
}

/** The streams that have large texts, or had some: their tables of changes still do. The store learns of it. */
async function findLargeTexts(store: SnapshotStore, { streams }: RunCommit): Promise<ReadonlySet<string>> {
  const large = new Set<string>();
  for (const commit of streams.filter(isChanged)) {
    const { task, changes, maxRecordBytes } = commit;
    const isLarge =
      task.previous?.large_texts === true ||
      // Numbers may become longer as texts.
      (2 * maxRecordBytes > largeBytes &&
        (await hasLargeTexts(store.session, task.previous === undefined ? task.files : changes, task.columns)));
    if (isLarge) large.add(task.stream);
  }
  if (large.size > 0) await store.expectLargeTexts();
  return large;
}

/** Divides items, in their order, into groups of at most that many columns, or of one item. */
function groupsOf<T>(items: readonly T[], columnsOf: (item: T) => number, columnsAtOnce: number): T[][] {
  const groups: T[][] = [];
  let left = 0;
  for (const item of items) {
    const columns = columnsOf(item);
    if (columns > left) {
      groups.push([]);
      left = columnsAtOnce;
    }
    if (groups.length === 0) groups.push([]);
    groups.at(-1)?.push(item);
    left -= columns;
  }
  return groups;
}

async function commitStreams(store: SnapshotStore, run: RunCommit, writer: SnapshotWriter): Promise<number> {
  const { streams, columnsAtOnce, signal, historyFrom } = run;
  const large = await store.session.until(signal, () => findLargeTexts(store, run));
  if (streams.some(({ task }) => areLarge(task.recordBytes))) await store.keepRowGroups();
  const sequence = streams.some(isChanged) ? run.sequence + 1 : run.sequence;
  const committedAt = await nextCommitTime(store, run.finishedAt);
  const described = streams.filter((commit) => isChanged(commit) && needsComments(commit.task));
  const describesColumns = fitComments(described.map(({ task }) => task.columns.length));
  const apply = async (commits: readonly StreamCommit[]) => {
    for (const commit of commits)
      await commitStream(store, run, { commit, describesColumns, sequence, writer, large, committedAt });
  };
  // After all streams are applied: DuckDB refuses to change a column's type after rows were deleted.
  const prune = async (states: readonly StreamState[]) => {
    for (const state of states) await pruneHistory(store, state, historyFrom);
  };
  const states = async () => (sequence > run.sequence ? [...(await store.state()).streams.values()] : []);
  const record = async () => {
    for (const commit of streams) await recordStream(store, commit, sequence);
    await recordRun(store, { ...run, finishedAt: committedAt }, sequence);
  };
  const transact = (work: () => Promise<void>) => store.session.transaction(work, signal);
  const groups = groupsOf(streams, columnsWritten, columnsAtOnce);
  if (groups.length < 2) {
    await transact(async () => {
      await apply(streams);
      await prune(await states());
      await record();
    });
    return sequence;
  }
  await writer.finished();
  await store.inCopy(run.layout, async () => {
    for (const group of groups) {
      await transact(() => apply(group));
      await store.checkpoint(await states());
    }
    // It writes only some rows of one table.
    const pruned = groupsOf(await states(), ({ columns }) => countLeaves(columns), columnsAtOnce);
    for (const group of pruned) await transact(() => prune(group));
    await transact(record);
  });
  return sequence;
}

type RunRow = Pick<RunCommit, 'runId' | 'startedAt' | 'finishedAt' | 'status'>;

/**
 * Adds a run to `cdsync.runs`. The row takes the place of the one that the run got while streams of it were held.
 * @param sequence null if the run committed nothing
 */
async function recordRun({ session }: SnapshotStore, run: RunRow, sequence: number | null): Promise<void> {
  const table = storeTable('runs', 'cdsync');
  const id = sqlText(run.runId);
  const times = [run.startedAt, run.finishedAt].map((time) => `${sqlText(time)}::TIMESTAMPTZ`).join(', ');
  await session.run(`DELETE FROM ${table} WHERE run_id = ${id}`);
  await session.run(`INSERT INTO ${table} VALUES (${id}, ${sequence ?? 'NULL'}, ${sqlText(run.status)}, ${times})`);
}

/** Notes a run whose streams are all held. It has no number, because it committed nothing. */
export async function recordHeldRun(store: SnapshotStore, run: Omit<RunRow, 'status'>): Promise<void> {
  await store.session.transaction(async () => {
    const finishedAt = await nextCommitTime(store, run.finishedAt);
    await recordRun(store, { ...run, finishedAt, status: 'held' }, null);
  });
}

/**
 * Applies a run's readings to the store, all or none, and writes the files that snapshots still lack. The run counts from the COMMIT
 * on, or from the rename of a divided commit; every later step can be repeated from the store.
 * @returns the sequence number of the store: a new one only if something changed
 * @throws {CdsyncError} `interrupted` if the signal aborts before the COMMIT: then the store is as it was
 */
export async function commitRun(store: SnapshotStore, run: RunCommit): Promise<number> {
  // Neither tables nor files of snapshots have an order of their own, and keeping one costs memory.
  await store.session.run('SET preserve_insertion_order = false');
  const changed = run.parquet ? run.streams.filter(isChanged) : [];
  const writer = SnapshotWriter.begin(
    store,
    changed.map(({ task }) => task),
    run.signal,
  );
  try {
    await run.meanwhile?.();
    return await commitStreams(store, run, writer);
  } finally {
    await writer.close();
    await store.session.run('SET preserve_insertion_order = true').catch(() => undefined);
  }
}

import { join } from 'node:path';
import { isAskable } from '../../api/request.js';
import { widen } from '../../columns/widen.js';
import type { ReadResult } from '../../extract/read-result.js';
import { type ApplyTask, copyBefore, isSmallChange, writeChanges } from '../../snapshot/apply.js';
import { type ChangedValues, changedValues } from '../../snapshot/changed-values.js';
import { isChanged, type StreamCommit } from '../../snapshot/commit.js';
import { absentKeys, type DiffTask } from '../../snapshot/diff.js';
import { maxRecordBytes } from '../../snapshot/large-rows.js';
import { writeSnapshotFiles } from '../../snapshot/snapshot-files.js';
import { workTables } from '../../snapshot/unify-parts.js';
import { type ParquetFile, writeParquet } from '../../storage/parquet.js';
import {
  type CompareContext,
  type Compared,
  type CompareTask,
  type ComparisonTask,
  compareReading,
} from './compare-reading.js';
import type { ConfirmTask } from './confirm-deletes.js';
import { countDuplicates } from './row-counts.js';
import { readRunRejects, shownKeys } from './run-rejects.js';

/** A commit that is ready, and its reading. */
export interface ComparedStream {
  readonly commit: StreamCommit;
  readonly read: ReadResult;
  /** Rows that stay because no request can confirm their delete. */
  readonly kept: number;
  /** In which columns the updated rows differ; undefined if there are none, or if that is unknown. */
  readonly changedValues?: ChangedValues | undefined;
}

/** An empty result after a snapshot with rows is suspicious, unless the stream allows it: `min_rows: 0`. */
function isSuspiciouslyEmpty({ config, previous, reader }: ComparisonTask, { difference }: Compared): boolean {
  const mayBe = reader.coverage === 'additions' || previous === undefined || previous.rows === 0;
  const holds = config.guards.minRows !== 0 && config.guards.action === 'hold';
  return !mayBe && difference.rows === 0 && holds;
}

/** A snapshot without rows is one file without rows, so that a glob over its folder still shows the columns. */
async function emptySnapshot(
  { store, folder, context }: ComparisonTask,
  { columns }: Pick<DiffTask, 'columns'>,
): Promise<ParquetFile[]> {
  const query = `SELECT ${widen([], columns, 'file')} WHERE false`;
  const { compression } = context.job.parquet;
  return [await writeParquet(store.session, query, join(folder, 'parts', 'empty.parquet'), { compression })];
}

interface Confirmed {
  readonly compared: Compared;
  /** Keys that no URL can contain: their rows stay. */
  readonly kept: readonly string[];
  /** Whether the earlier versions of changed and deleted rows are copied already. */
  readonly isCopied: boolean;
}

/**
 * Absent keys are only candidates for deletes. cdsync requests each of them. If there are too many, or the service has no request
 * for one record, it reads the list again. A list of one page needs neither.
 */
async function confirm(task: ComparisonTask, compared: Compared): Promise<Confirmed> {
  const { config, reader } = task;
  const { confirmable } = reader;
  const unconfirmed = { compared, kept: [], isCopied: false };
  if (compared.difference.deleted === 0 || confirmable === undefined) return unconfirmed;
  const maxConfirmed = config.reads.confirmDeletes;
  const candidates = await deleteCandidates(task, compared, maxConfirmed + 1);
  if (candidates.length === 0) return unconfirmed;
  // No request can contain a hashed key.
  const one = reader.key.some((name) => config.columns[name]?.hash) ? undefined : confirmable.one;
  if (one !== undefined && candidates.length <= maxConfirmed)
    return confirmByKey(task, compared, { candidates, one, add: confirmable.addSingle });
  if (one === undefined && reader.live.pages === 1) return unconfirmed;
  const pass = await confirmable.readAgain();
  const comparedAgain = await compareReading(task);
  pass.added = Math.max(0, comparedAgain.difference.rows - compared.difference.rows);
  return { ...unconfirmed, compared: comparedAgain };
}

/** Absent keys, up to `most` of them. Rows that the contract leaves out, and records that cannot be read, are not deleted. */
async function deleteCandidates(
  { config, store }: ComparisonTask,
  { accepted: { keys, read } }: Compared,
  most: number,
): Promise<string[]> {
  const present = new Set([...keys, ...(await readRunRejects(read.rejects)).map(({ key }) => key)]);
  const absent = await absentKeys(store.session, workTables(config.name), present.size + most);
  return absent.filter((key) => !present.has(key));
}

/** Requests each candidate; those that are there after all are compared with the others. */
async function confirmByKey(
  task: ComparisonTask,
  compared: Compared,
  { candidates, one, add }: { readonly candidates: readonly string[] } & Pick<ConfirmTask, 'one' | 'add'>,
): Promise<Confirmed> {
  const { config, reader, store, context } = task;
  const kept = candidates.filter((key) => !isAskable(key));
  const keys = candidates.filter(isAskable);
  const { client, signal } = context;
  const atOnce = client.concurrency(config.reads.group ?? 'profile');
  const { confirmDeletes } = await import('./confirm-deletes.js');
  const asked = confirmDeletes({ stream: config.name, keys, one, add, client, signal, atOnce, meter: reader.live });
  // Nearly always all of them are deleted. While the service responds, the commit is prepared for that case.
  const change = { ...compared.diffed, difference: compared.difference };
  const copies =
    isSmallChange(change) && kept.length === 0 ? copyBefore(store, change, workTables(config.name)) : undefined;
  const [present, copied] = await Promise.allSettled([asked, copies]);
  if (present.status === 'rejected') throw present.reason;
  if (copied.status === 'rejected') throw copied.reason;
  if (present.value + kept.length > 0) return { compared: await compareReading(task, kept), kept, isCopied: false };
  return { compared, kept, isCopied: copies !== undefined };
}

/** The task that applies a difference; it writes the files of the new snapshot. */
async function applyTask(task: ComparisonTask, { unified, difference, diffed }: Compared): Promise<ApplyTask> {
  const { context, store, folder, previous, run, config } = task;
  const { compression } = context.job.parquet;
  const growing = { ...diffed, difference, read: unified.files, folder, compression };
  const grown = await context.database.use('comparing', { recordBytes: diffed.recordBytes }, () =>
    writeSnapshotFiles(store, growing, workTables(config.name)),
  );
  const hasFile = grown.files.length > 0 || grown.addition !== undefined || grown.again !== undefined;
  return {
    ...diffed,
    ...grown,
    files: hasFile ? grown.files : await emptySnapshot(task, diffed),
    difference,
    rows: difference.rows,
    changesPath: join(folder, 'changes.parquet'),
    compression,
    runId: run.runId,
    syncedAt: laterThan(previous?.synced_at, run.startedAt),
  };
}

/** Records that the service returned more than once, without those that cdsync itself read again. */
function countRepeated({ reader }: ComparisonTask, { accepted: { read }, unified, difference }: Compared): number {
  const copies = countDuplicates(read, unified) + read.unchangedRows.records - difference.cached;
  const ofPasses = (reader.passes ?? []).reduce((sum, { records, added }) => sum + Math.max(0, records - added), 0);
  return Math.max(0, copies - ofPasses);
}

/** The commit without its changes. */
async function commitOf(task: ComparisonTask, compared: Compared): Promise<StreamCommit> {
  const { config, reader, store, definition } = task;
  const { accepted, unified, diffed, forgotten } = compared;
  const { read, discarded, discardedValues } = accepted;
  const rejects = await shownKeys(store.session, await readRunRejects(read.rejects), diffed);
  return {
    source: config.source,
    task: await applyTask(task, compared),
    tables: workTables(config.name),
    changes: [],
    duplicates: countRepeated(task, compared),
    maxRecordBytes: maxRecordBytes(read),
    discarded,
    discardedValues,
    rejects: rejects.filter(({ key }) => forgotten?.has(key) !== true),
    rejected: read.counters.rejected,
    forgotten: unified.forgotten,
    covered: reader.covered,
    reading: reader.reading,
    definition,
    known: cacheUpdateOf(task, read),
  };
}

/**
 * Compares a reading with the stream's last snapshot, and writes the changes. It confirms absent keys, unless all are absent: then
 * it requests none, and the guards hold the stream.
 * @throws {CdsyncError} `unbalanced`
 * @throws {ReadingInvalidated}
 */
export async function compareStream(context: CompareContext, input: CompareTask): Promise<ComparedStream> {
  const { config, store, run } = input;
  const previous = input.before.streams.get(config.name);
  const folder = context.layout.streamRun(run.runId, config.name);
  const task: ComparisonTask = { ...input, context, previous, folder };
  const first = await compareReading(task);
  const { compared, kept, isCopied } = isSuspiciouslyEmpty(task, first)
    ? { compared: first, kept: [], isCopied: false }
    : await confirm(task, first);
  const { read } = compared.accepted;
  const commit = await commitOf(task, compared);
  if (!isChanged(commit)) return { commit, read, kept: kept.length };
  return context.database.use('comparing', { recordBytes: commit.task.recordBytes }, async () => {
    const changes = await writeChanges(store, commit.task, commit.tables, isCopied);
    // Only the page about the run needs it.
    const changed = await changedValues(store, commit.task, changes, commit.tables).catch(() => undefined);
    return { commit: { ...commit, changes }, read, kept: kept.length, changedValues: changed };
  });
}

/** The update of the record cache; `the same` if all records were cache hits. */
function cacheUpdateOf(
  { reader, folder, run }: ComparisonTask,
  { parts, unchangedRows }: ReadResult,
): StreamCommit['known'] {
  const { nextCache: next } = reader;
  if (next === undefined) return 'none';
  const { known } = unchangedRows;
  if (known !== null && known.unseenPath === null && parts.length === 0) return 'unchanged';
  return {
    ...next,
    cachedRows: known,
    set: reader.hashTable,
    keysPaths: parts.map(({ keysPath }) => keysPath),
    folder,
    verifiedAt: next.verifiedAt ?? run.startedAt,
  };
}

/** Start of the run; if the clock was set back, just after the last snapshot, so that snapshots stay in order. */
function laterThan(before: string | undefined, startedAt: string): string {
  if (before === undefined || before < startedAt) return startedAt;
  return new Date(Date.parse(before) + 1).toISOString();
}

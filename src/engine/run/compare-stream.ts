import { join } from 'node:path';
import { isAskable } from '../../api/request.js';
import { ColumnSet, holdNegativeZero, type StoredColumn } from '../../columns/columns.js';
import { hashVersion } from '../../columns/row-hash.js';
import { plainText } from '../../columns/text-code.js';
import { lostEmptyTexts, widen } from '../../columns/widen.js';
import type { StreamConfig } from '../../config/config.js';
import { sha256OfFile, statOrUndefined } from '../../core/durable.js';
import type { ReadResult } from '../../extract/read-result.js';
import { type ApplyTask, copyBefore, isSmallChange, writeChanges } from '../../snapshot/apply.js';
import { type ChangedValues, changedValues } from '../../snapshot/changed-values.js';
import { isChanged, type StreamCommit } from '../../snapshot/commit.js';
import {
  absentKeys,
  countRefreshed,
  type Difference,
  type DiffTask,
  diff,
  hashesComparable,
} from '../../snapshot/diff.js';
import { largestRowBytes, maxRecordBytes } from '../../snapshot/large-rows.js';
import { writeSnapshotFiles } from '../../snapshot/snapshot-files.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { type Unified, unifyParts, workTables } from '../../snapshot/unify-parts.js';
import { planMemory } from '../../storage/memory-plan.js';
import { type ParquetFile, writeParquet } from '../../storage/parquet.js';
import type { RunIdentity } from '../../storage/run-state.js';
import type { RunContext } from '../run-context.js';
import type { ConfirmTask } from './confirm-deletes.js';
import { enforceContract } from './enforce-contract.js';
import { type ForgottenKeys, forgottenKeys } from './forgotten-keys.js';
import type { Definition } from './open-stream.js';
import type { PreviousState } from './recover.js';
import { checkRowCounts, countDuplicates } from './row-counts.js';
import { readRejects, shownKeys } from './run-rejects.js';
import type { StreamReader } from './stream-reader.js';

type CompareContext = Pick<RunContext, 'job' | 'layout' | 'client' | 'signal' | 'config' | 'database' | 'caches'>;

interface CompareTask {
  readonly config: StreamConfig;
  readonly reader: StreamReader;
  readonly before: PreviousState;
  readonly store: SnapshotStore;
  readonly run: RunIdentity;
  /** Which records the stream is about. */
  readonly definition: Definition;
}

/** A commit that is ready, and its reading. */
export interface ComparedStream {
  readonly commit: StreamCommit;
  readonly read: ReadResult;
  /** Rows that stay because no request can confirm their delete. */
  readonly kept: number;
  /** In which columns the updated rows differ; undefined if there are none, or if that is unknown. */
  readonly changedValues?: ChangedValues | undefined;
}

/** A column has another type now, so the reading lacks values of some rows: the whole stream must be read again. */
export class ReadingInvalidated extends Error {
  /** The columns to begin with, if not those of the last snapshot. */
  readonly columns: readonly StoredColumn[] | undefined;

  constructor(columns?: readonly StoredColumn[]) {
    super('a column got another type');
    this.columns = columns;
  }
}

/**
 * Empty texts become NULL where a column has a type. If it later becomes text, only another reading returns them.
 * @param current the columns with the types that they keep
 * @throws {ReadingInvalidated}
 */
function assertNoLostTexts(
  { parts, unchangedRows: cached, columns }: ReadResult,
  current: readonly StoredColumn[],
  previous: StreamState | undefined,
): void {
  const before = previous === undefined || cached.known === null ? [] : [previous.columns];
  const lost = [...before, ...parts.map((part) => part.columns)].flatMap((from) => lostEmptyTexts(from, current));
  if (lost.length === 0) return;
  const names = new Set(lost.map(({ name }) => name));
  throw new ReadingInvalidated(columns.map((one) => (names.has(one.name) ? { ...one, text: plainText } : one)));
}

interface Compared {
  readonly read: ReadResult;
  /** Number of rows that the contract leaves out. */
  readonly discarded: number;
  readonly discardedValues: number;
  readonly discardedKeys: ReadonlySet<string>;
  readonly unified: Unified;
  readonly difference: Difference;
  readonly diffed: DiffTask;
  readonly forgotten: ForgottenKeys | undefined;
}

/** A task with values that are derived from it. */
interface ComparisonTask extends CompareTask {
  readonly context: CompareContext;
  readonly previous: StreamState | undefined;
  /** The stream's private folder in the run. */
  readonly folder: string;
}

/**
 * The Parquet files of a snapshot that has a -0.0 or large texts, if they are all here and whole. DuckDB's tables keep no sign where all
 * values of a column within a block of rows are zeros, and 2048 rows of a table are in memory together.
 */
async function previousFiles(
  { layout }: CompareContext,
  previous: StreamState | undefined,
): Promise<readonly string[] | undefined> {
  if (previous === undefined || previous.snapshot.length === 0) return undefined;
  if (previous.large_texts !== true && !holdNegativeZero(previous.columns)) return undefined;
  const paths: string[] = [];
  for (const { path: name, sha256 } of previous.snapshot) {
    const path = join(layout.stream(previous.stream), name);
    if ((await statOrUndefined(path)) === undefined || (await sha256OfFile(path)) !== sha256) return undefined;
    paths.push(path);
  }
  return paths;
}

/**
 * A first reading without records still gets the columns of its filter, so that queries which name them find no rows and do not
 * fail.
 */
function withFiltered(read: ReadResult, { reads, columns: rules }: StreamConfig): ReadResult {
  if (read.parts.length > 0) return read;
  const columns = ColumnSet.restore(read.columns);
  const plain = [...reads.filter.keys()].filter((name) => !(name in rules) && !(`attributes.${name}` in rules));
  for (const name of plain) columns.columnFor('attribute', name);
  return { ...read, columns: columns.store() };
}

/** @param kept keys of absent rows that stay as they are */
async function compare(task: ComparisonTask, kept: readonly string[] = []): Promise<Compared> {
  const { context, store, reader, config, before, previous, folder } = task;
  const { compression } = context.job.parquet;
  const wholeFiles = await previousFiles(context, previous);
  const received = await reader.extracted();
  const keeping = previous !== undefined && kept.length > 0;
  const {
    read: enforced,
    discarded,
    discardedValues,
    keys: discardedKeys,
  } = await enforceContract(store.session, {
    contract: config.contract,
    stream: config.name,
    before: previous?.columns,
    read: keeping
      ? await (await import('./confirm-deletes.js')).withKeptRows(store, received, {
          previous,
          keys: kept,
          previousFiles: wholeFiles,
          folder,
          compression,
        })
      : received,
    key: reader.key,
    folder,
    compression,
  });
  const read = previous === undefined ? withFiltered(enforced, config) : enforced;
  assertNoLostTexts(received, read.columns, previous);
  const tables = workTables(config.name);
  const { key, coverage } = reader;
  const duckdb = hashVersion(before.duckdbVersion);
  if (read.unchangedRows.known !== null && !hashesComparable({ previous, columns: read.columns, hashVersion: duckdb }))
    throw new ReadingInvalidated();
  const known = config.reads.details && previous && { stream: config.name, columns: previous.columns };
  const { keysAtOnce } = planMemory(context.config.resources, { cacheBytes: context.caches.bytes });
  const forgotten = await forgottenKeys(context, { stream: config.name, key, previous });
  const recordBytes = await largestRowBytes(store.session, read, wholeFiles);
  const unifying = { ...read, key, compression, recordBytes, known, keysAtOnce, forgotten: forgotten?.among };
  const within = { recordBytes };
  const unified = await context.database.use('comparing', within, () => unifyParts(store.session, unifying, tables));
  checkRowCounts(config.name, read, unified);
  const { columns } = read;
  const diffed = {
    stream: config.name,
    previous,
    columns,
    key,
    hashVersion: duckdb,
    keysAtOnce,
    rows: unified.rows,
    coverage,
    unchangedRows: read.unchangedRows,
    previousFiles: wholeFiles,
    recordBytes,
  };
  const { difference, refreshed } = await context.database.use('comparing', within, async () => ({
    difference: await diff(store.session, diffed, tables),
    refreshed: await countRefreshed(store.session, diffed, unified.files),
  }));
  return {
    read,
    discarded,
    discardedValues,
    discardedKeys,
    unified,
    diffed,
    forgotten,
    difference: { ...difference, refreshed },
  };
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
  const comparedAgain = await compare(task);
  pass.added = Math.max(0, comparedAgain.difference.rows - compared.difference.rows);
  return { ...unconfirmed, compared: comparedAgain };
}

/** Absent keys, up to `most` of them. Rows that the contract leaves out, and records that cannot be read, are not deleted. */
async function deleteCandidates(
  { config, store }: ComparisonTask,
  { discardedKeys, read }: Compared,
  most: number,
): Promise<string[]> {
  const present = new Set([...discardedKeys, ...(await readRejects(read.rejects)).map(({ key }) => key)]);
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
  if (present.value + kept.length > 0) return { compared: await compare(task, kept), kept, isCopied: false };
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
function countRepeated({ reader }: ComparisonTask, { read, unified, difference }: Compared): number {
  const copies = countDuplicates(read, unified) + read.unchangedRows.records - difference.cached;
  const ofPasses = (reader.passes ?? []).reduce((sum, { records, added }) => sum + Math.max(0, records - added), 0);
  return Math.max(0, copies - ofPasses);
}

/** The commit without its changes. */
async function commitOf(task: ComparisonTask, compared: Compared): Promise<StreamCommit> {
  const { config, reader, store, definition } = task;
  const { read, discarded, discardedValues, unified, diffed, forgotten } = compared;
  const rejects = await shownKeys(store.session, await readRejects(read.rejects), diffed);
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
  const first = await compare(task);
  const { compared, kept, isCopied } = isSuspiciouslyEmpty(task, first)
    ? { compared: first, kept: [], isCopied: false }
    : await confirm(task, first);
  const { read } = compared;
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

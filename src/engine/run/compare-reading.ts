import { join } from 'node:path';
import { ColumnSet, holdNegativeZero, type StoredColumn } from '../../columns/columns.js';
import { hashVersion } from '../../columns/row-hash.js';
import { plainText } from '../../columns/text-code.js';
import { lostEmptyTexts } from '../../columns/widen.js';
import type { StreamConfig } from '../../config/config.js';
import { sha256OfFile, statOrUndefined } from '../../core/durable.js';
import type { ReadResult } from '../../extract/read-result.js';
import { countRefreshed, type Difference, type DiffTask, diff, hashesComparable } from '../../snapshot/diff.js';
import { largestRowBytes } from '../../snapshot/large-rows.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { type Unified, unifyParts, workTables } from '../../snapshot/unify-parts.js';
import { planMemory } from '../../storage/memory-plan.js';
import type { RunIdentity } from '../../storage/run-state.js';
import type { RunContext } from '../run-context.js';
import { type Enforced, enforceContract } from './enforce-contract.js';
import { type ForgottenKeys, forgottenKeys } from './forgotten-keys.js';
import type { Definition } from './open-stream.js';
import type { PreviousState } from './recover.js';
import { checkRowCounts } from './row-counts.js';
import type { StreamReader } from './stream-reader.js';

export type CompareContext = Pick<
  RunContext,
  'job' | 'layout' | 'client' | 'signal' | 'config' | 'database' | 'caches'
>;

export interface CompareTask {
  readonly config: StreamConfig;
  readonly reader: StreamReader;
  readonly before: PreviousState;
  readonly store: SnapshotStore;
  readonly run: RunIdentity;
  /** Which records the stream is about. */
  readonly definition: Definition;
}

/** A task with values that are derived from it. */
export interface ComparisonTask extends CompareTask {
  readonly context: CompareContext;
  readonly previous: StreamState | undefined;
  /** The stream's private folder in the run. */
  readonly folder: string;
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

/** A reading compared with the last snapshot. */
export interface Compared {
  /** The reading without rows and values that the contract leaves out. */
  readonly accepted: Enforced;
  readonly unified: Unified;
  readonly difference: Difference;
  readonly diffed: DiffTask;
  readonly forgotten: ForgottenKeys | undefined;
}

/**
 * The Parquet files of a snapshot that has a -0.0 or large texts, if they are all here and whole. DuckDB's tables keep no sign where all
 * values of a column within a block of rows are zeros, and 2048 rows of a table are in memory together.
 */
async function wholeFiles(
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

/** The records that were received, and the absent ones that stay as they are. */
async function receivedRecords(
  { context, store, reader, previous, folder }: ComparisonTask,
  { kept, previousFiles }: { readonly kept: readonly string[]; readonly previousFiles: readonly string[] | undefined },
): Promise<ReadResult> {
  const received = await reader.extracted();
  if (previous === undefined || kept.length === 0) return received;
  const { compression } = context.job.parquet;
  const { withKeptRows } = await import('./confirm-deletes.js');
  return withKeptRows(store, received, { previous, keys: kept, previousFiles, folder, compression });
}

/** The records that the contract accepts. @throws {CdsyncError} `contract_violated` */
async function acceptedRecords(
  { context, store, reader, config, previous, folder }: ComparisonTask,
  received: ReadResult,
): Promise<Enforced> {
  const accepted = await enforceContract(store.session, {
    contract: config.contract,
    stream: config.name,
    before: previous?.columns,
    read: received,
    key: reader.key,
    folder,
    compression: context.job.parquet.compression,
  });
  return previous === undefined ? { ...accepted, read: withFiltered(accepted.read, config) } : accepted;
}

/**
 * Compares a reading with the last snapshot: its parts become one row for each key, and these are compared with the snapshot's rows.
 * @param kept keys of absent rows that stay as they are
 * @throws {CdsyncError} `contract_violated`
 * @throws {ReadingInvalidated}
 */
export async function compareReading(task: ComparisonTask, kept: readonly string[] = []): Promise<Compared> {
  const { context, store, reader, config, before, previous } = task;
  const { key, coverage } = reader;
  const stream = config.name;
  const previousFiles = await wholeFiles(context, previous);
  const received = await receivedRecords(task, { kept, previousFiles });
  const accepted = await acceptedRecords(task, received);
  const { read } = accepted;
  const { columns, unchangedRows } = read;
  assertNoLostTexts(received, columns, previous);
  const version = hashVersion(before.duckdbVersion);
  if (unchangedRows.known !== null && !hashesComparable({ previous, columns, hashVersion: version }))
    throw new ReadingInvalidated();

  const tables = workTables(stream);
  const { compression } = context.job.parquet;
  const { keysAtOnce } = planMemory(context.config.resources, { cacheBytes: context.caches.bytes });
  const forgotten = await forgottenKeys(context, { stream, key, previous });
  const recordBytes = await largestRowBytes(store.session, read, previousFiles);
  const unifying = {
    ...read,
    key,
    compression,
    recordBytes,
    keysAtOnce,
    known: config.reads.details && previous && { stream, columns: previous.columns },
    forgotten: forgotten?.among,
  };
  const unified = await context.database.use('comparing', { recordBytes }, () =>
    unifyParts(store.session, unifying, tables),
  );
  checkRowCounts(stream, read, unified);

  const { rows } = unified;
  const compared = { stream, key, rows, columns, coverage, unchangedRows };
  const diffed = { ...compared, previous, previousFiles, hashVersion: version, keysAtOnce, recordBytes };
  const difference = await context.database.use('comparing', { recordBytes }, async () => ({
    ...(await diff(store.session, diffed, tables)),
    refreshed: await countRefreshed(store.session, diffed, unified.files),
  }));
  return { accepted, unified, diffed, forgotten, difference };
}

import { join } from 'node:path';
import { holdNegativeZero } from '../columns/columns.js';
import { rowKey } from '../columns/row-hash.js';
import { sameColumns, widen } from '../columns/widen.js';
import { fileText, fileTexts, quoteIdentifier } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';
import {
  copyToParquet,
  type ParquetCompression,
  type ParquetFile,
  type ParquetForm,
  writeParquet,
} from '../storage/parquet.js';
import {
  changesDefinition,
  completeKeys,
  type Difference,
  type DiffTask,
  hashesComparable,
  isComplete,
  previousRows,
} from './diff.js';
import { rangesOf, rowBytesOf } from './large-rows.js';
import type { SnapshotStore } from './snapshot-store.js';
import { storeTable } from './store-tables.js';
import type { WorkTables } from './unify-parts.js';

/** A growing snapshot has at most this many files; the next one is then written as a whole again. */
const maxFiles = 64;

interface SnapshotFilesTask extends DiffTask {
  readonly difference: Difference;
  /** Files of the reading, each key once. */
  readonly read: readonly ParquetFile[];
  /** The stream's private folder in the run. */
  readonly folder: string;
  readonly compression: ParquetCompression;
}

/** The files of a snapshot: `files`, unless one of the others is set. */
export interface SnapshotFiles {
  /** The rows that were read. */
  readonly files: readonly ParquetFile[];
  /** Files to add to those of the previous snapshot. */
  readonly addition: readonly ParquetFile[] | undefined;
  /** Files with all rows. Any session of the store can write them. The commit does, beside its own statements. */
  readonly again: readonly { readonly query: string; readonly path: string; readonly form: ParquetForm }[] | undefined;
}

/** SQL for the keys whose stored rows are no longer in the snapshot: those that were read, and those that are gone. */
export function replacedKeys({ keys, changed }: WorkTables): string {
  return `SELECT key FROM ${keys} WHERE part IS NOT NULL UNION ALL SELECT key FROM ${changed} WHERE op = 'delete'`;
}

/** SQL for the rows of the new snapshot, as its table has them. */
export function snapshotRows(
  task: Pick<DiffTask, 'previous' | 'stream' | 'columns' | 'key' | 'previousFiles'> & SnapshotFiles,
  tables: WorkTables,
): string {
  const { columns, files, addition, again } = task;
  const read = `SELECT ${widen(columns, columns, 'table')} FROM read_parquet(${fileTexts(files.map(({ path }) => path))})`;
  if (addition === undefined && again === undefined) return read;
  const stored = unchangedRowsSql(task, replacedKeys(tables), { form: 'table' });
  return files.length === 0 ? stored : `${read} UNION ALL ${stored}`;
}

/** SQL for the rows of the previous snapshot, with the present columns, whose keys are not among those of a query. */
function unchangedRowsSql(
  task: Pick<DiffTask, 'previous' | 'stream' | 'columns' | 'key' | 'previousFiles'>,
  replaced: string,
  { form, where = 'true' }: { readonly form: 'table' | 'file'; readonly where?: string },
): string {
  const { previous, columns, key } = task;
  return `SELECT * FROM (SELECT ${widen(previous?.columns ?? [], columns, form)} FROM ${previousRows(task)} WHERE ${where})
     WHERE ${rowKey(key)} NOT IN (${replaced})`;
}

/**
 * Decides on the files of the new snapshot, and writes them unless the commit is to do that:
 * - the files of the reading, if they have all rows;
 * - one file of new rows beside the present files, if the reading only inserts;
 * - otherwise new files with all rows: those that were read and the unchanged ones. The commit writes them.
 */
export async function writeSnapshotFiles(
  store: SnapshotStore,
  task: SnapshotFilesTask,
  tables: WorkTables,
): Promise<SnapshotFiles> {
  const { previous, columns, difference, read, folder, compression, recordBytes } = task;
  if (previous === undefined || isComplete(task)) return { files: read, addition: undefined, again: undefined };
  // A reading of few small records may meet a snapshot of large rows.
  const storedBytes = await rowBytesOf(store.session, task.previousFiles ?? []);
  const form = { compression, keepsZeroSigns: holdNegativeZero(columns), rowBytes: Math.max(recordBytes, storedBytes) };
  const { inserted, updated, deleted, refreshed } = difference;
  const onlyCame = updated + deleted + refreshed === 0;
  if (onlyCame && inserted === 0 && !changesDefinition(task)) return { files: read, addition: [], again: undefined };
  // If the keys of the reading replace the stored ones, they must be complete.
  const replacesKeys = !hashesComparable(task);
  const names = columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const files = `read_parquet(${fileTexts(read.map(({ path }) => path))})`;
  const key = rowKey(task.key);
  const { snapshot } = previous;
  if (onlyCame && sameColumns(previous.columns, columns, 'file') && snapshot.length > 0 && snapshot.length < maxFiles) {
    const changed = `SELECT ${names} FROM ${files} WHERE ${key} IN (SELECT key FROM ${tables.changed})`;
    const path = join(folder, 'parts', 'addition.parquet');
    const addition = inserted === 0 ? [] : [await writeParquet(store.session, changed, path, form)];
    if (replacesKeys && task.coverage === 'additions') await completeKeys(store.session, task, tables);
    return { files: read, addition, again: undefined };
  }
  if (task.coverage === 'additions') await completeKeys(store.session, task, tables);
  const replaced = join(folder, 'replaced.parquet');
  await copyToParquet(store.session, replacedKeys(tables), replaced, { compression: 'snappy' });
  const portions = await portionsOf(store.session, task, form.rowBytes);
  const again = portions.map((ranges, index) => {
    const keys = `SELECT key FROM read_parquet(${fileText(replaced)})`;
    const unchanged = ranges.map((where) => unchangedRowsSql(task, keys, { form: 'file', where })).join(' UNION ALL ');
    const query = index > 0 || read.length === 0 ? unchanged : `SELECT ${names} FROM ${files} UNION ALL ${unchanged}`;
    return { query, path: join(folder, 'parts', `whole-${index + 1}.parquet`), form };
  });
  return { files: read, addition: undefined, again };
}

/** Below this number of rows, a snapshot that is written again is one file. */
const minRowsOfTwoFiles = 100_000;

/** A statement asks for at most this number of ranges: with more, the rows of each are not that large. */
const maxRanges = 200;

/**
 * SQL conditions for the stored rows of a stream: if they are large, ranges of few, one after the other; if they are many, halves that can
 * be written at the same time.
 * @returns the ranges of each file
 */
async function portionsOf(
  session: Session,
  { stream, previous, previousFiles }: Pick<DiffTask, 'stream' | 'previous' | 'previousFiles'>,
  rowBytes: number,
): Promise<readonly (readonly string[])[]> {
  if (previousFiles !== undefined) return [['true']];
  const table = storeTable(stream);
  const ranges = await rangesOf(session, { table, rowBytes });
  if (ranges.length > 1 && ranges.length <= maxRanges) return [ranges];
  if ((previous?.rows ?? 0) < minRowsOfTwoFiles) return [['true']];
  const middle = await session.number(`SELECT (max(rowid) + 1) // 2 FROM ${table}`);
  return [[`rowid < ${middle}`], [`rowid >= ${middle}`]];
}

/**
 * Writes the files that a snapshot still lacks, side by side.
 * @param beside works in its own session
 * @returns all that are new in it
 */
async function writePendingFiles(
  beside: <T>(work: (session: Session) => Promise<T>) => Promise<T>,
  { files, addition, again }: SnapshotFiles,
): Promise<readonly ParquetFile[]> {
  if (again === undefined) return addition ?? files;
  const written = await Promise.allSettled(
    again.map(({ query, path, form }) => beside((session) => writeParquet(session, query, path, form))),
  );
  return written.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

/** A stream, and the files of its new snapshot. */
type StreamFiles = SnapshotFiles & { readonly stream: string };

/**
 * Writes what snapshots still lack, one stream after the other, in sessions of their own. They read the store as it is before the
 * commit: the commit waits for the files before it counts, because it names them. During that time each statement has one thread: two threads
 * that write one file take almost half more CPU time.
 */
export class SnapshotWriter {
  readonly #stop = new AbortController();
  readonly #written: Promise<ReadonlyMap<string, readonly ParquetFile[]>>;

  private constructor(store: SnapshotStore, streams: readonly StreamFiles[], signal: AbortSignal) {
    const either = AbortSignal.any([signal, this.#stop.signal]);
    const beside = <T>(work: (session: Session) => Promise<T>) =>
      store.beside((session) => session.until(either, () => work(session)));
    const write = async () => {
      const written = new Map<string, readonly ParquetFile[]>();
      for (const stream of streams) written.set(stream.stream, await writePendingFiles(beside, stream));
      return written;
    };
    this.#written = streams.some(({ again }) => again !== undefined) ? store.writingFiles(write) : write();
    // Reported when someone asks for the files.
    this.#written.catch(() => undefined);
  }

  /** Begins to write. Call {@link close} in any case. */
  static begin(store: SnapshotStore, streams: readonly StreamFiles[], signal: AbortSignal): SnapshotWriter {
    return new SnapshotWriter(store, streams, signal);
  }

  /** The new files of a stream's snapshot, once they are written. @throws {CdsyncError} `disk_full`, `interrupted` */
  async filesOf(stream: string): Promise<readonly ParquetFile[]> {
    return (await this.#written).get(stream) ?? [];
  }

  /** Waits until everything is written, so that no other session uses the store. @throws {CdsyncError} `disk_full`, `interrupted` */
  async finished(): Promise<void> {
    await this.#written;
  }

  /** Stops the writing if it is still under way, and waits until it has stopped. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#written.catch(() => undefined);
  }
}

import { join } from 'node:path';
import { quoteIdentifier, sqlTexts } from '../core/sql.js';
import { holdNegativeZero } from '../rows/columns.js';
import { rowKey } from '../rows/row-hash.js';
import { sameColumns, widen } from '../rows/widen.js';
import { type ParquetCompression, type ParquetFile, writeParquet } from '../store/parquet.js';
import { completeKeys, type Difference, type DiffTask, hashesStand, holdsAll, restates } from './diff.js';
import { type SnapshotStore, storeTable } from './snapshot-store.js';
import type { WorkTables } from './unify-parts.js';

/** A growing snapshot has at most this many files; the next one is then written as a whole again. */
const mostFiles = 64;

export interface SnapshotFilesTask extends DiffTask {
  readonly difference: Difference;
  /** Files of the reading, each key once. */
  readonly read: readonly ParquetFile[];
  /** The stream's private folder in the run. */
  readonly folder: string;
  readonly compression: ParquetCompression;
}

/** The files of a snapshot. */
export interface SnapshotFiles {
  /** All of its rows; if `addition` is given, only those that were read. */
  readonly files: readonly ParquetFile[];
  /** Files to add to those of the previous snapshot; undefined if `files` are the whole snapshot. */
  readonly addition: readonly ParquetFile[] | undefined;
}

/** SQL for the keys whose stored rows are no longer in the snapshot: those that were read, and those that are gone. */
export function replacedKeys({ keys, changed }: WorkTables): string {
  return `SELECT key FROM ${keys} WHERE part IS NOT NULL UNION ALL SELECT key FROM ${changed} WHERE op = 'delete'`;
}

/**
 * Returns or writes the files of the new snapshot:
 * - the files of the reading, if they have all rows;
 * - one file of new rows beside the present files, if the reading only inserts;
 * - otherwise one new file with all rows: those that were read and those that stand.
 */
export async function writeSnapshotFiles(
  store: SnapshotStore,
  task: SnapshotFilesTask,
  tables: WorkTables,
): Promise<SnapshotFiles> {
  const { previous, columns, difference, read, stream, folder, compression } = task;
  if (previous === undefined || holdsAll(task)) return { files: read, addition: undefined };
  const form = { compression, keepsZeroSigns: holdNegativeZero(columns) };
  const { inserted, updated, deleted, refreshed } = difference;
  const onlyCame = updated + deleted + refreshed === 0;
  if (onlyCame && inserted === 0 && !restates(task)) return { files: read, addition: [] };
  // If the keys of the reading replace the stored ones, they must be complete.
  const replacesKeys = !hashesStand(task);
  const names = columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const files = `read_parquet(${sqlTexts(read.map(({ path }) => path))})`;
  const key = rowKey(task.key);
  const { snapshot } = previous;
  if (
    onlyCame &&
    sameColumns(previous.columns, columns, 'file') &&
    snapshot.length > 0 &&
    snapshot.length < mostFiles
  ) {
    const came = `SELECT ${names} FROM ${files} WHERE ${key} IN (SELECT key FROM ${tables.changed})`;
    const path = join(folder, 'parts', 'addition.parquet');
    const addition = inserted === 0 ? [] : [await writeParquet(store.session, came, path, form)];
    if (replacesKeys && task.brings === 'additions') await completeKeys(store.session, task, tables);
    return { files: read, addition };
  }
  if (task.brings === 'additions') await completeKeys(store.session, task, tables);
  const stored = `(SELECT ${widen(previous.columns, columns, 'file')} FROM ${storeTable(stream)})`;
  const whole = `${read.length === 0 ? '' : `SELECT ${names} FROM ${files} UNION ALL`}
     SELECT ${names} FROM ${stored} WHERE ${key} NOT IN (${replacedKeys(tables)})`;
  const path = join(folder, 'parts', 'whole.parquet');
  return { files: [await writeParquet(store.session, whole, path, form)], addition: undefined };
}

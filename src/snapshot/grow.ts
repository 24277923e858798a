import { join } from 'node:path';
import { quoteIdentifier, sqlTexts } from '../core/sql.js';
import { rowKey } from '../rows/row-hash.js';
import { sameColumns, widen } from '../rows/widen.js';
import { type ParquetCompression, type ParquetFile, writeParquet } from '../store/parquet.js';
import { completeKeys, type Difference, type DiffTask, restates } from './diff.js';
import { type SnapshotStore, storeTable } from './snapshot-store.js';
import type { WorkTables } from './unify-parts.js';

/** Files of a snapshot that grows; with this many, the next one is written as a whole again. */
const mostFiles = 64;

export interface GrowTask extends DiffTask {
  readonly difference: Difference;
  /** Files of what was read, each key once. */
  readonly read: readonly ParquetFile[];
  /** The stream's private folder in the run. */
  readonly folder: string;
  readonly compression: ParquetCompression;
}

export interface Grown {
  readonly files: readonly ParquetFile[];
  readonly addition: readonly ParquetFile[] | undefined;
}

/**
 * The snapshot that comes of one before and what was added to it: where rows only came, a file of those beside the files
 * that are there; otherwise the whole anew, what was read and what was not.
 */
export async function growSnapshot(store: SnapshotStore, task: GrowTask, tables: WorkTables): Promise<Grown> {
  const { previous, columns, difference, read, stream, folder, compression } = task;
  const isSame = difference.inserted + difference.updated === 0 && !restates(task);
  if (previous === undefined || isSame) return { files: read, addition: [] };
  const names = columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const files = `read_parquet(${sqlTexts(read.map(({ path }) => path))})`;
  const key = rowKey(task.key);
  const onlyCame = difference.updated === 0 && sameColumns(previous.columns, columns, 'file');
  const { snapshot } = previous;
  if (onlyCame && snapshot.length > 0 && snapshot.length < mostFiles) {
    const came = `SELECT ${names} FROM ${files} WHERE ${key} IN (SELECT key FROM ${tables.changed})`;
    const path = join(folder, 'parts', 'addition.parquet');
    return { files: read, addition: [await writeParquet(store.session, came, path, compression)] };
  }
  const stored = `(SELECT ${widen(previous.columns, columns, 'file')} FROM ${storeTable(stream)})`;
  const whole = `${read.length === 0 ? '' : `SELECT ${names} FROM ${files} UNION ALL`}
     SELECT ${names} FROM ${stored} WHERE ${key} NOT IN (SELECT key FROM ${tables.keys})`;
  const file = await writeParquet(store.session, whole, join(folder, 'parts', 'whole.parquet'), compression);
  await completeKeys(store.session, task, tables);
  return { files: [file], addition: undefined };
}

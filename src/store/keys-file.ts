import { type KeyedRows, keysOf } from '../rows/part.js';
import type { Session } from './duckdb.js';
import { type ParquetFile, writeParquet } from './parquet.js';

/** Writes the keys of a part into a file, durable on return. It can be recomputed from the part at any time. */
export function writeKeys(session: Session, rows: KeyedRows, keysPath: string): Promise<ParquetFile> {
  return writeParquet(session, keysOf(rows), keysPath, { compression: 'snappy' });
}

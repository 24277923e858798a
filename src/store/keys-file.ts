import { type KeyedRows, keysOf } from '../rows/part.js';
import type { Session } from './duckdb.js';
import { type ParquetFile, writeParquet } from './parquet.js';

/** Writes the keys of a part; the file is durable on return. It can be computed again from the part at any time. */
export function writeKeys(session: Session, rows: KeyedRows, keysPath: string): Promise<ParquetFile> {
  return writeParquet(session, keysOf(rows), keysPath, 'snappy');
}

import { join } from 'node:path';
import { ColumnSet } from '../../columns/columns.js';
import { rowKey } from '../../columns/row-hash.js';
import { widen } from '../../columns/widen.js';
import { sqlTexts } from '../../core/sql.js';
import type { ReadResult } from '../../extract/read-result.js';
import { previousRows } from '../../snapshot/diff.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { keysVersion, writeKeys } from '../../storage/keys-file.js';
import { type ParquetCompression, writeParquet } from '../../storage/parquet.js';
import { partFiles } from '../../storage/part.js';

interface KeptRows {
  readonly previous: StreamState;
  readonly keys: readonly string[];
  /** The Parquet files of the previous snapshot, if only they have the sign of each zero. */
  readonly signedFiles: readonly string[] | undefined;
  /** The stream's private folder in the run. */
  readonly folder: string;
  readonly compression: ParquetCompression;
}

/** A reading with some rows of the previous snapshot, as they are there, as one more part. */
export async function withKeptRows(
  { session }: SnapshotStore,
  read: ReadResult,
  { previous, keys, signedFiles, folder, compression }: KeptRows,
): Promise<ReadResult> {
  const { columns, key, stream } = previous;
  const number = Math.max(0, ...read.parts.map((part) => part.number)) + 1;
  const { path, keysPath } = partFiles(join(folder, 'parts'), number);
  const rows = `SELECT * FROM ${previousRows({ stream, signedFiles })} WHERE ${rowKey(key)} IN (SELECT unnest(${sqlTexts(keys)}::VARCHAR[]))`;
  const query = `SELECT ${widen(columns, columns, 'file')} FROM (${rows})`;
  const file = await writeParquet(session, query, path, { compression, keepsZeroSigns: signedFiles !== undefined });
  await writeKeys(session, { number, path, columns: ColumnSet.restore(columns).list, key }, keysPath);
  const part = {
    ...file,
    number,
    segments: [],
    rejects: 0,
    columns: [...columns],
    keysPath,
    hash_version: keysVersion(),
  };
  const { counters } = read;
  return { ...read, parts: [...read.parts, part], counters: { ...counters, read: counters.read + file.rows } };
}

import { version } from '@duckdb/node-api';
import { hashWords } from '../columns/record-hash.js';
import { hashVersion } from '../columns/row-hash.js';
import type { Session } from './duckdb.js';
import { type ParquetFile, writeParquet } from './parquet.js';
import { type KeyedRows, keysFileRows } from './part.js';

/** How {@link writeKeys} hashes rows, in this process. */
export function keysVersion(): string {
  return hashVersion(version());
}

const rawTable = 'work_raw';

/**
 * Writes the keys of a part into a file, durable on return. It can be recomputed from the part at any time, except for the
 * hashes of the records' bytes: without them the next night converts these records again.
 * @param raw the hash of each row's record, four words each
 */
export async function writeKeys(
  session: Session,
  rows: KeyedRows,
  keysPath: string,
  raw?: Uint32Array,
): Promise<ParquetFile> {
  if (raw !== undefined) {
    await session.run(`CREATE OR REPLACE TEMP TABLE ${rawTable} (raw_hi UBIGINT, raw_lo UBIGINT)`);
    await session.appendWords(rawTable, raw, hashWords / 2);
  }
  try {
    return await writeParquet(session, keysFileRows(rows, raw && rawTable), keysPath, { compression: 'snappy' });
  } finally {
    if (raw !== undefined) await session.run(`DROP TABLE ${rawTable}`);
  }
}

import { stat } from 'node:fs/promises';
import { closeToOthers, renameDurably, sha256OfFile, syncFile, temporaryName } from '../core/durable.js';
import { sqlText } from '../core/sql.js';
import type { Session } from './duckdb.js';
import { areLarge, rowsTogether, withRowsOf } from './large-rows.js';

export type ParquetCompression = 'zstd' | 'snappy' | 'gzip' | 'none';

/** How to write a file. */
export interface ParquetForm {
  readonly compression: ParquetCompression;
  /** Whether -0.0 may be among the values: then there are no dictionaries, for DuckDB's would make 0.0 of it, or the reverse. */
  readonly keepsZeroSigns?: boolean;
  /** Bytes of a row, on average, if they are many: a writer, and each reader, has a whole row group in memory. */
  readonly rowBytes?: number;
}

/** A finished Parquet file. */
export interface ParquetFile {
  readonly path: string;
  readonly rows: number;
  readonly bytes: number;
  readonly sha256: string;
}

/** Small enough that a writer needs little memory, large enough that readers can skip groups by their statistics. */
const rowGroupRows = 20_480;

/** A row group of rows that are not large has about this many bytes before compression, or fewer. */
const rowGroupBytes = 32_000_000;

function groupRowsOf(rowBytes: number): number {
  if (areLarge(rowBytes)) return rowsTogether(rowBytes);
  return Math.min(rowGroupRows, Math.floor(rowGroupBytes / Math.max(1, rowBytes)));
}

function options({ compression, keepsZeroSigns = false, rowBytes = 0 }: ParquetForm): string {
  const level = compression === 'zstd' ? ', COMPRESSION_LEVEL 1' : '';
  const codec = compression === 'none' ? 'uncompressed' : compression;
  const dictionaries = keepsZeroSigns ? ', DICTIONARY_SIZE_LIMIT 0' : '';
  // Bloom filters take an eighth of the time. DuckDB makes them only of columns with a dictionary, which no key is.
  return `(FORMAT parquet, COMPRESSION ${codec}${level}, ROW_GROUP_SIZE ${groupRowsOf(rowBytes)}${dictionaries}, WRITE_BLOOM_FILTER false)`;
}

/** Writes a query's rows into a Parquet file that is not durable: for files that can be recomputed. Returns their number. */
export async function copyToParquet(session: Session, query: string, path: string, form: ParquetForm): Promise<number> {
  const sql = `COPY (${query}) TO ${sqlText(path)} ${options(form)}`;
  return withRowsOf(session, form.rowBytes ?? 0, () => session.number(sql));
}

/**
 * Writes a query's rows, in their order, into a Parquet file. The file is complete and durable once it has its name: DuckDB's
 * COPY alone syncs nothing.
 */
export async function writeParquet(
  session: Session,
  query: string,
  path: string,
  form: ParquetForm,
): Promise<ParquetFile> {
  const temporary = temporaryName(path);
  const rows = await copyToParquet(session, query, temporary, form);
  await closeToOthers(temporary);
  await syncFile(temporary);
  const [{ size: bytes }, sha256] = await Promise.all([stat(temporary), sha256OfFile(temporary)]);
  await renameDurably(temporary, path);
  return { path, rows, bytes, sha256 };
}

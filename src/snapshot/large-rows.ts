import { existsSync } from 'node:fs';
import { ColumnSet } from '../columns/columns.js';
import { hashedRows, type TypedColumn } from '../columns/row-hash.js';
import { CdsyncError } from '../core/errors.js';
import { fileTexts, internalName, quoteIdentifier } from '../core/sql.js';
import {
  areLarge,
  isWithin,
  rangeRows,
  rangesWithin,
  rowSpan,
  rowsTogether,
  vectorRows,
} from '../storage/large-rows.js';
import type { StreamState } from './stream-state.js';

/** What gives the rows of a query. */
interface Asked {
  rows(sql: string): Promise<Record<string, unknown>[]>;
}

async function numberOf(session: Asked, sql: string): Promise<number> {
  const [row = {}] = await session.rows(sql);
  return Number(Object.values(row)[0] ?? 0);
}

/** Bytes of memory for a value, at least: a file may have one of its texts once. The entries of lists are also made into JSON, and of it. */
const valueBytes = 'CASE WHEN num_values > row_group_num_rows THEN 32 ELSE 16 END';

/** How large the rows of files are. */
interface RowSizes {
  /** Bytes of a row in the row group with the largest ones, on average. 0 without rows. */
  readonly largest: number;
  /** How many to work on together; undefined if they are not large. */
  readonly together: number | undefined;
}

/** @param paths of Parquet files; those that are gone count as empty */
export async function rowSizesOf(session: Asked, paths: readonly string[]): Promise<RowSizes> {
  const present = paths.filter((path) => existsSync(path));
  if (present.length === 0) return { largest: 0, together: undefined };
  const [row] = await session.rows(
    `SELECT max(bytes / rows) AS largest, sum(bytes) / sum(rows) AS average
       FROM (SELECT sum(greatest(total_uncompressed_size, num_values * (${valueBytes}))) AS bytes, any_value(row_group_num_rows) AS rows
         FROM parquet_metadata(${fileTexts(present)}) WHERE row_group_num_rows > 0 GROUP BY file_name, row_group_id)`,
  );
  const largest = Number(row?.largest ?? 0);
  return { largest, together: areLarge(largest) ? rowsTogether(largest, Number(row?.average ?? 0)) : undefined };
}

/** The largest of {@link rowSizesOf}. */
export async function rowBytesOf(session: Asked, paths: readonly string[]): Promise<number> {
  return (await rowSizesOf(session, paths)).largest;
}

/** The figures of a reading that show how large its records are. */
interface Reading {
  readonly parts: readonly { readonly path: string; readonly max_record_bytes?: number | undefined }[];
  readonly counters: { readonly bytes: number; readonly read: number };
}

/** Bytes of the longest record of a reading, or more. */
export function maxRecordBytes({ parts }: Pick<Reading, 'parts'>): number {
  return Math.max(0, ...parts.map((part) => part.max_record_bytes ?? Number.POSITIVE_INFINITY));
}

/** Bytes of a row, on average, in the part of a reading or of the last snapshot that has the largest ones. */
export async function largestRowBytes(
  session: Asked,
  reading: Reading,
  storedFiles: readonly string[] = [],
): Promise<number> {
  const { parts, counters } = reading;
  // Large records may be among many small ones.
  const read = areLarge(maxRecordBytes(reading)) ? parts.map(({ path }) => path) : [];
  return Math.max(counters.bytes / Math.max(1, counters.read), await rowBytesOf(session, [...storedFiles, ...read]));
}

/**
 * SQL for a value that replaces a column's where two rows are compared: of texts, and of lists and objects with texts, few bytes. The hash
 * alone does not distinguish NULL from an empty list, the text alone not every text within.
 */
export function comparable(type: string, value: string): string {
  return /VARCHAR|JSON/.test(type) ? `concat(hash(${value}), ' ', md5((${value})::VARCHAR))` : value;
}

/** For rows that do not fit in memory, 2,048 of them together. */
const hugeRowBytes = 4_000_000;

/** Bytes of a stored row among its neighbours, roughly: from the table, for a stream whose files are gone. 0 if the stream has no large texts. */
export async function storedRowBytes(
  session: Asked,
  table: string,
  { columns, large_texts: areLarge }: Pick<StreamState, 'columns' | 'large_texts'>,
): Promise<number> {
  if (areLarge !== true) return 0;
  const lengths = ColumnSet.restore(columns).list.flatMap(({ name, type }) =>
    /VARCHAR|JSON/.test(type) ? [`coalesce(strlen(${quoteIdentifier(name)}::VARCHAR), 0)`] : [],
  );
  if (lengths.length === 0) return 0;
  const ofVectors = `SELECT avg(${lengths.join(' + ')}) AS bytes FROM ${table} GROUP BY rowid // ${vectorRows}`;
  return numberOf(session, `SELECT max(bytes) FROM (${ofVectors})`).catch((error: unknown) => {
    if (error instanceof CdsyncError && error.code === 'memory_exceeded') return hugeRowBytes;
    throw error;
  });
}

const rowNumber = internalName('row');

/**
 * SQL for the rows of a table, in as many queries as it takes: few large rows in each. They are copied first, because DuckDB reads all
 * lists and objects of a vector, whichever rows are wanted, and would make texts of all.
 * @param together of {@link rowSizesOf}
 */
export async function fewRowsOf(
  session: Asked,
  { table, together, select = '*' }: { readonly table: string; readonly together: number | undefined; select?: string },
): Promise<string[]> {
  const rows = `SELECT ${select} FROM ${table}`;
  const span = together === undefined ? undefined : await rowSpan(session, table);
  if (together === undefined || span === undefined) return [rows];
  return rangesWithin(span, together).map(
    (range) => `WITH few AS MATERIALIZED (${rows} WHERE ${isWithin(range)}) FROM few`,
  );
}

/** The XOR of the hashes of all rows of a table. */
export async function hashesOf(
  session: Asked,
  table: { readonly table: string; readonly together: number | undefined },
  columns: readonly TypedColumn[],
): Promise<string> {
  let hashes = 0n;
  for (const few of await fewRowsOf(session, { ...table, select: `rowid AS ${rowNumber}, *` })) {
    const rows = hashedRows(`(${few})`, rowNumber, columns);
    const [row] = await session.rows(`SELECT bit_xor(hash)::VARCHAR AS hashes FROM (${rows})`);
    hashes ^= BigInt(String(row?.hashes ?? 0));
  }
  return String(hashes);
}

/**
 * SQL conditions that divide a table into record ranges of few bytes, in the order of its rows: with each, DuckDB reads only those rows. One
 * without effect if the rows are small.
 * @param rowBytes of {@link rowBytesOf}
 * @param where which rows are wanted
 */
export async function rangesOf(
  session: Asked,
  { table, rowBytes, where = 'true' }: { readonly table: string; readonly rowBytes: number; readonly where?: string },
): Promise<string[]> {
  const together = rangeRows(rowBytes);
  if (together >= vectorRows) return ['true'];
  const span = await rowSpan(session, table, where);
  return span === undefined ? ['false'] : rangesWithin(span, together).map(isWithin);
}

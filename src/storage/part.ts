import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { columnFieldsSchema, columnsSchema } from '../columns/columns.js';
import { hashWords } from '../columns/record-hash.js';
import { hashedRows, hashVersion, rowHash, rowKey, type TypedColumn, wideColumns } from '../columns/row-hash.js';
import { CdsyncError } from '../core/errors.js';
import { sealedContents } from '../core/sealed-json.js';
import { fileText, fileTexts } from '../core/sql.js';
import { z } from '../core/zod.js';
import { version } from '../sdk/duckdb/node-api.js';
import type { Session } from './duckdb.js';
import { type ParquetFile, writeParquet } from './parquet.js';

/** Raise it when parts of another version, or the hashes beside them, cannot be mixed with new ones. Such readings do not resume. */
export const partVersion = 4;

/** A part without its paths, which change when a later run takes the part over. */
export const partRecordSchema = z.object({
  /** Counts from 1 in the order of reading. If several parts have the same key, the row in the last of them counts. */
  number: z.number(),
  /** A part without rows has no file: its batch held only rejects. */
  rows: z.number(),
  bytes: z.number(),
  /** SHA-256 of the file. */
  sha256: z.string(),
  /** SHA-256 of the keys file. Without it the keys file cannot be checked, and is computed again. */
  keys_sha256: z.string().optional(),
  /** How the rows in the keys file are hashed; left out if there are none. With another DuckDB it is computed again. */
  hash_version: z.string().optional(),
  /** Columns of the file. */
  columns: columnsSchema,
  /** Columns that its records had, but that a rule or the contract leaves out; left out itself if there are none. */
  left_out: columnFieldsSchema.optional(),
  /** Where the rows come from, in the order of the file: partition, attempt, number of rows. */
  segments: z.array(z.tuple([z.string(), z.number(), z.number()])),
  /** Records of the batch that could not be kept. */
  rejects: z.number(),
  /** Bytes of the longest record, or more; left out if the rows are not from records. */
  max_record_bytes: z.number().optional(),
});
export type PartRecord = z.infer<typeof partRecordSchema>;

export const partSchema = partRecordSchema.extend({
  /** The Parquet file of its rows. */
  path: z.string(),
  /** The keys file beside it; see {@link keysOf}. */
  keysPath: z.string(),
});

/** Rows of a reading: a finished Parquet file and its keys, durable before any journal names them. */
export type Part = z.infer<typeof partSchema>;

/** Where the files of a part are. */
export interface PartFiles {
  readonly path: string;
  readonly keysPath: string;
  /** JSON lines, if the part has rejects. */
  readonly rejectsPath: string;
}

/** @param folder `parts/` of the stream's private folder in the run */
export function partFiles(folder: string, number: number): PartFiles {
  const base = join(folder, String(number).padStart(5, '0'));
  return { path: `${base}.parquet`, keysPath: `${base}.keys`, rejectsPath: `${base}.rejects.jsonl` };
}

/** The input of a part's keys file. */
interface KeyedRows {
  /** Number of the part. */
  readonly number: number;
  /** Its Parquet file. */
  readonly path: string;
  readonly columns: readonly TypedColumn[];
  /** Columns that make the key. */
  readonly key: readonly string[];
}

/**
 * SQL for (key, hash, part, row) of each row of a part. A comparison needs no more; part and row show which copy of a key was
 * read last.
 */
export function keysOf({ number, path, columns, key }: KeyedRows): string {
  const rows = `read_parquet(${fileText(path)}, file_row_number = true)`;
  const keyed = `${rowKey(key)} AS key, ${number}::INTEGER AS part, file_row_number::BIGINT AS row`;
  if (columns.length <= wideColumns) {
    return `SELECT key, hash, part, row FROM (SELECT ${keyed}, ${rowHash(columns)} AS hash FROM ${rows})`;
  }
  return `SELECT key, hash, part, row FROM (SELECT ${keyed} FROM ${rows})
     JOIN (${hashedRows(rows, 'file_row_number', columns)}) ON id = row ORDER BY row`;
}

/**
 * SQL for the rows of a keys file: those of {@link keysOf}, and the hash of each record's bytes in two halves, or NULL.
 * @param raw a table of the halves (raw_hi, raw_lo), in the order of the rows; 0 for none
 */
function keysFileRows(rows: KeyedRows, raw: string | undefined): string {
  if (raw === undefined) return `SELECT *, NULL::UBIGINT AS raw_hi, NULL::UBIGINT AS raw_lo FROM (${keysOf(rows)})`;
  return `SELECT k.*, nullif(raw_hi, 0) AS raw_hi, raw_lo FROM (${keysOf(rows)}) AS k JOIN ${raw} AS r ON r.rowid = k.row`;
}

/** SQL for the rows of all these keys files. */
export function allKeys(paths: readonly string[]): string {
  return paths.length === 0
    ? 'SELECT NULL::VARCHAR AS key, NULL::UBIGINT AS hash, NULL::INTEGER AS part, NULL::BIGINT AS row WHERE false'
    : `SELECT key, hash, part, row FROM read_parquet(${fileTexts(paths)})`;
}

/**
 * The lines of a file of rejects.
 * @throws {CdsyncError} `state_unreadable` if it was altered, or has fewer lines than were written
 */
export async function rejectsIn(path: string): Promise<readonly object[]> {
  try {
    return sealedContents(await readFile(path, 'utf8'));
  } catch (cause) {
    throw new CdsyncError(`${path}, the list of records that could not be kept, is damaged`, {
      code: 'state_unreadable',
      hint: 'a held result: discard it (cdsync discard), and run again; otherwise cdsync run --full',
      cause,
    });
  }
}

/** Rows to drop from a part: `from` is included, `to` is not. */
export interface DroppedRows {
  readonly part: number;
  readonly from: number;
  readonly to: number;
}

/** How {@link writeKeys} hashes rows, in this process. */
export function keysVersion(): string {
  return hashVersion(version());
}

const rawTable = 'work_raw';

/**
 * Writes the keys of a part into a file, durable on return. It can be recomputed from the part at any time, except for the
 * hashes of the records' bytes: without them the next run converts these records again.
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

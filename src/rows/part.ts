import { join } from 'node:path';
import { z } from 'zod';
import { sqlText, sqlTexts } from '../core/sql.js';
import { rowHash, rowKey, type TypedColumn } from './row-hash.js';
import { columnsSchema } from './stored-columns.js';

/** All of a part but its place on the disk, which changes when a later run takes it over. */
export const partRecordSchema = z.object({
  /** Counts from 1 in the order of reading: of copies of one key, the one in the later part stands. */
  number: z.number(),
  /** A part of no rows has no file: its batch held only rejects. */
  rows: z.number(),
  bytes: z.number(),
  /** Of the file, SHA-256. */
  sha256: z.string(),
  /** The same of the keys file; what is left out cannot be checked, and is computed again. */
  keys_sha256: z.string().optional(),
  /** The columns that the file has. */
  columns: columnsSchema,
  /** Whose rows stand in the file, in order: partition, attempt, rows. */
  segments: z.array(z.tuple([z.string(), z.number(), z.number()])),
  /** Records of the batch that could not be kept. */
  rejects: z.number(),
});
export type PartRecord = z.infer<typeof partRecordSchema>;

export const partSchema = partRecordSchema.extend({
  /** The Parquet file of its rows. */
  path: z.string(),
  /** The keys file beside it; see {@link keysOf}. */
  keysPath: z.string(),
});

/** Rows that a reading has brought: a finished Parquet file and its keys, durable before any journal names them. */
export type Part = z.infer<typeof partSchema>;

/** Where the files of a part are. */
export interface PartFiles {
  readonly path: string;
  readonly keysPath: string;
  /** JSON lines, where the part has rejects. */
  readonly rejectsPath: string;
}

/** @param folder `parts/` of the stream's private folder in the run */
export function partFiles(folder: string, number: number): PartFiles {
  const base = join(folder, String(number).padStart(5, '0'));
  return { path: `${base}.parquet`, keysPath: `${base}.keys`, rejectsPath: `${base}.rejects.jsonl` };
}

/** What the rows of a part's keys are computed from. */
export interface KeyedRows {
  /** Number of the part. */
  readonly number: number;
  /** Its Parquet file. */
  readonly path: string;
  readonly columns: readonly TypedColumn[];
  /** Columns that make the key. */
  readonly key: readonly string[];
}

/**
 * SQL for what a keys file has of each row of a part: (key, hash, part, row). That is all a comparison needs; the last two
 * tell which copy of a key was read last.
 */
export function keysOf({ number, path, columns, key }: KeyedRows): string {
  return `SELECT ${rowKey(key)} AS key, ${rowHash(columns)} AS hash, ${number}::INTEGER AS part,
     file_row_number::BIGINT AS row FROM read_parquet(${sqlText(path)}, file_row_number = true)`;
}

/** SQL for what these keys files have together. */
export function allKeys(paths: readonly string[]): string {
  return paths.length === 0
    ? 'SELECT NULL::VARCHAR AS key, NULL::UBIGINT AS hash, NULL::INTEGER AS part, NULL::BIGINT AS row WHERE false'
    : `SELECT key, hash, part, row FROM read_parquet(${sqlTexts(paths)})`;
}

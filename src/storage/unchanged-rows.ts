import { fileText } from '../core/sql.js';
import { z } from '../core/zod.js';

export const unchangedRowsSchema = z.object({
  /** Cache hits, which are in no part; copies of one key and dropped attempts included. */
  records: z.number(),
  /** Null: the reading used no record cache. */
  known: z
    .object({
      /** Parquet file (key, raw_hi, raw_lo): the rows of the last snapshot whose records are cached. */
      keysPath: z.string(),
      /** Number of its rows. */
      rows: z.number(),
      /** Parquet file (raw_hi, raw_lo): those of them whose records were not read; null: all were read. */
      unseenPath: z.string().nullable(),
    })
    .nullable(),
});

/**
 * The rows that a reading found unchanged since the last snapshot. The reading leaves them out of its parts. A row whose key is in
 * a part is not unchanged: the part was read later.
 */
export type UnchangedRows = z.infer<typeof unchangedRowsSchema>;
export type CachedRows = NonNullable<UnchangedRows['known']>;

/** For a reading whose parts hold every record that was read. */
export const noUnchangedRows: UnchangedRows = { records: 0, known: null };

function read(path: string): string {
  return `read_parquet(${fileText(path)})`;
}

/** SQL for (key, raw_hi, raw_lo) of the rows whose records were read. */
export function hitRowsSql({ keysPath, unseenPath }: CachedRows): string {
  const all = `SELECT key, raw_hi, raw_lo FROM ${read(keysPath)} AS k`;
  return unseenPath === null ? all : `${all} ANTI JOIN ${read(unseenPath)} AS u USING (raw_hi, raw_lo)`;
}

/** SQL for the keys of the rows whose records were not read, each once. */
export function missedKeysSql({ keysPath, unseenPath }: CachedRows): string {
  const all = `SELECT DISTINCT key FROM ${read(keysPath)} AS k`;
  return unseenPath === null
    ? `${all} WHERE false`
    : `${all} SEMI JOIN ${read(unseenPath)} AS u USING (raw_hi, raw_lo)`;
}

import { z } from 'zod';
import { fileText } from '../core/sql.js';

export const standingSchema = z.object({
  /** Records that were recognised and are in no part, copies of one key and dropped attempts included. */
  records: z.number(),
  /** Null: no record could be recognised. */
  known: z
    .object({
      /** Parquet file (key, raw_hi, raw_lo): the rows of the snapshot before whose records can be recognised. */
      keysPath: z.string(),
      /** Number of its rows. */
      rows: z.number(),
      /** Parquet file (raw_hi, raw_lo): those of them whose records did not come; null: all came. */
      unseenPath: z.string().nullable(),
    })
    .nullable(),
});

/**
 * The rows that a reading found exactly as the snapshot before has them. They stand: the reading leaves them out of its
 * parts, so the parts need not hold all of its rows. A row whose key is in a part does not stand: the part was read later.
 */
export type UnchangedRows = z.infer<typeof standingSchema>;
export type CachedRows = NonNullable<UnchangedRows['known']>;

/** For a reading whose parts hold every record that was read. */
export const noUnchangedRows: UnchangedRows = { records: 0, known: null };

function read(path: string): string {
  return `read_parquet(${fileText(path)})`;
}

/** SQL for (key, raw_hi, raw_lo) of the rows whose records came. */
export function hitRowsSql({ keysPath, unseenPath }: CachedRows): string {
  const all = `SELECT key, raw_hi, raw_lo FROM ${read(keysPath)} AS k`;
  return unseenPath === null ? all : `${all} ANTI JOIN ${read(unseenPath)} AS u USING (raw_hi, raw_lo)`;
}

/** SQL for the keys of the rows whose records did not come, each once. */
export function missedKeysSql({ keysPath, unseenPath }: CachedRows): string {
  const all = `SELECT DISTINCT key FROM ${read(keysPath)} AS k`;
  return unseenPath === null
    ? `${all} WHERE false`
    : `${all} SEMI JOIN ${read(unseenPath)} AS u USING (raw_hi, raw_lo)`;
}

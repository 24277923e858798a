import { z } from 'zod';
import { sqlTexts } from '../core/sql.js';

export const standingSchema = z.object({
  /** Records that were read and are in no part, copies of one key included. */
  records: z.number(),
  /** Parquet files with a column `key`: the keys of those records. */
  keyFiles: z.array(z.string()),
});

/**
 * The rows that a reading found exactly as the snapshot before has them. They stand: the reading leaves them out of its
 * parts, so the parts need not hold all of its rows.
 */
export type Standing = z.infer<typeof standingSchema>;

/** For a reading whose parts hold every record that was read. */
export const noneStanding: Standing = { records: 0, keyFiles: [] };

/** SQL for a table of the keys that stand, each once. */
export function standingKeys({ keyFiles }: Standing): string {
  return `(SELECT DISTINCT key FROM read_parquet(${sqlTexts(keyFiles)}))`;
}

import { z } from 'zod';
import { sqlTexts } from '../core/sql.js';

export const standingSchema = z.object({
  /** Records that were read and are in no part, copies of one key included. */
  records: z.number(),
  /** Parquet files with the column `key`: their keys. */
  keyFiles: z.array(z.string()),
});

/**
 * What a reading has met just as the snapshot before has it, and left out of its parts: those rows stand. So the parts of a
 * reading need not hold all of its rows.
 */
export type Standing = z.infer<typeof standingSchema>;

/** Of a reading whose parts hold every record that was read. */
export const noneStanding: Standing = { records: 0, keyFiles: [] };

/** SQL for a table of the keys that stand, each once. */
export function standingKeys({ keyFiles }: Standing): string {
  return `(SELECT DISTINCT key FROM read_parquet(${sqlTexts(keyFiles)}))`;
}

import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { CdsyncError } from '../core/errors.js';

const manifestSchema = z.object({
  version: z.literal(1),
  stream: z.string(),
  run_id: z.string(),
  sequence: z.number(),
  schema: z.array(z.object({ name: z.string(), type: z.string() })),
  rows: z.number(),
  /** Paths are relative to the manifest. */
  files: z.array(z.object({ path: z.string(), rows: z.number(), bytes: z.number(), sha256: z.string() })),
});

/** Says which Parquet files make a stream's present snapshot. */
export type Manifest = z.infer<typeof manifestSchema>;

/**
 * @returns undefined where there is none
 * @throws {CdsyncError} `manifest_unreadable`
 */
export async function readManifest(path: string): Promise<Manifest | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return manifestSchema.parse(JSON.parse(text));
  } catch (error) {
    throw new CdsyncError(`${path} is no manifest of cdsync`, {
      code: 'manifest_unreadable',
      hint: 'run again: the manifest is written anew from the store',
      cause: error,
    });
  }
}

import { readStateFile, type StateFile } from '../core/durable.js';
import { storedName, storedPath } from '../core/stored-texts.js';
import { z } from '../core/zod.js';

const manifestSchema = z.object({
  version: z.literal(1),
  stream: z.string(),
  run_id: storedName,
  sequence: z.number(),
  schema: z.array(z.object({ name: z.string(), type: z.string(), format: z.string().optional() })),
  rows: z.number(),
  /** Paths are relative to the manifest. */
  files: z.array(z.object({ path: storedPath, rows: z.number(), bytes: z.number(), sha256: z.string() })),
});

/** Lists the Parquet files of a stream's present snapshot. */
export type Manifest = z.infer<typeof manifestSchema>;

const manifestFile: StateFile<Manifest> = {
  schema: manifestSchema,
  what: 'manifest',
  code: 'manifest_unreadable',
  hint: 'run again: the run rewrites the manifest from the store',
};

/**
 * @returns undefined if there is none
 * @throws {CdsyncError} `manifest_unreadable`
 */
export function readManifest(path: string): Promise<Manifest | undefined> {
  return readStateFile(path, manifestFile);
}

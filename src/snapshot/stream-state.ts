import { columnsSchema } from '../columns/columns.js';
import { storedName, storedPath } from '../core/stored-texts.js';
import { z } from '../core/zod.js';

const fileSchema = z.object({
  /** Relative to `parquet/<stream>/`. */
  path: storedPath,
  /** Where the file was written, relative to the job's folder. Publishing moves it from there after the commit. */
  from: storedPath,
  rows: z.number(),
  bytes: z.number(),
  sha256: z.string(),
  /** When it was last written, in whole milliseconds since 1970; undefined if that was not noted. */
  changed_ms: z.number().optional(),
});

/** A Parquet file of a committed snapshot. */
export type CommittedFile = z.infer<typeof fileSchema>;

const rewrittenChangesSchema = z.object({
  /** The snapshot from which on they are complete. */
  since: z.object({ sequence: z.number(), run_id: storedName.nullable() }),
  commits: z.array(
    z.object({ run_id: storedName, sequence: z.number(), synced_at: z.string(), files: z.array(fileSchema) }),
  ),
});
export type RewrittenChanges = z.infer<typeof rewrittenChangesSchema>;

const coveredSchema = z.object({ from: z.string(), to: z.string() });

/** A span of time that needs no further reading; `to` is excluded. ISO 8601, UTC. */
export type CoveredSpan = z.infer<typeof coveredSchema>;

const readingSchema = z.object({
  /** Of the snapshot that it left. */
  run_id: storedName,
  /** Of the query and of all that shapes its rows. */
  fingerprint: z.string(),
  /** The run that last changed each stream that it read, by name. */
  inputs: z.record(z.string(), z.string()),
});

/** The reading of a query for a snapshot. */
export type QueryReading = z.infer<typeof readingSchema>;

export const stateSchema = z.object({
  stream: storedName,
  /** Of the commit that last changed the stream. */
  run_id: storedName,
  sequence: z.number(),
  synced_at: z.string(),
  rows: z.number(),
  key: z.array(z.string()),
  columns: columnsSchema,
  hash_version: z.string(),
  snapshot: z.array(fileSchema),
  changes: z.array(fileSchema),
  covered: z.array(coveredSchema).optional(),
  /** The reading of the last run with a commit, if the stream is a query. */
  reading: readingSchema.optional(),
  /** What defines the stream, as digests. */
  definition: z.record(z.string(), z.string()),
  /** Some text of the stream, now or before, is large: see {@link SnapshotStore.expectLargeTexts}. */
  large_texts: z.literal(true).optional(),
  /** People were forgotten here, so there is a log of decisions. */
  forgotten: z.literal(true).optional(),
  /** This commit removed values that the files of earlier commits still have. */
  rewritten: z.literal(true).optional(),
  /** With `rewritten`: the changes of earlier commits without these values. */
  rewritten_changes: rewrittenChangesSchema.optional(),
  /**
   * The first commit. Its rows are in no table of changes: nothing was before them. Null or undefined once it is older than
   * `publish.history`.
   */
  first: z.object({ run_id: storedName, synced_at: z.string() }).nullable().optional(),
});

/** The store's record of a stream: enough to finish publishing it and to compare the next reading with it. */
export type StreamState = z.infer<typeof stateSchema>;

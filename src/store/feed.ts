import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { columnsSchema } from '../rows/stored-columns.js';
import type { JobLayout } from './layout.js';
import { readStateFile, type StateFile, writeStateFile } from './state-file.js';

const fileSchema = z.object({ path: z.string(), rows: z.number() });

const changesSchema = z.object({
  run_id: z.string(),
  sequence: z.number(),
  synced_at: z.string(),
  rows: z.number(),
  /** Relative to `parquet/<stream>/`; empty if the job keeps no Parquet files. */
  files: z.array(z.string()),
  /** Columns of the files; left out if they equal those of the next run. */
  columns: columnsSchema.optional(),
});

const feedSchema = z.object({
  version: z.literal(1),
  stream: z.string(),
  store_id: z.string(),
  run_id: z.string(),
  sequence: z.number(),
  synced_at: z.string(),
  rows: z.number(),
  key: z.array(z.string()),
  columns: columnsSchema,
  definition: z.record(z.string(), z.string()),
  /** Paths are relative to `parquet/<stream>/`; empty if the job keeps no Parquet files. */
  snapshot: z.array(fileSchema),
  /** The changes of every run after `complete_since`, the oldest first. */
  changes: z.array(changesSchema),
  /** A destination that has this sequence, or a later one, needs only `changes`. */
  complete_since: z.number(),
});

/**
 * A stream's data for destinations: its present snapshot and the changes that led to it. Written when the commit is
 * published, so that a delivery needs neither the store nor the job's lock.
 */
export type Feed = z.infer<typeof feedSchema>;
export type FeedChanges = z.infer<typeof changesSchema>;

const feedFile: StateFile<Feed> = {
  schema: feedSchema,
  hint: 'remove it; the next run writes it anew, and destinations are then compared in full',
};

/**
 * @returns undefined if nothing of the stream has been published yet
 * @throws {CdsyncError} `state_unreadable`
 */
export function readFeed(layout: JobLayout, stream: string): Promise<Feed | undefined> {
  return readStateFile(layout.feed(stream), feedFile);
}

export async function writeFeed(layout: JobLayout, feed: Feed): Promise<void> {
  const path = layout.feed(feed.stream);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeStateFile(path, feed);
}

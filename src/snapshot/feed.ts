import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { z } from 'zod';
import { columnsSchema } from '../columns/columns.js';
import { readStateFile, type StateFile, writeStateFile } from '../storage/durable.js';
import type { JobLayout } from '../storage/layout.js';

const fileSchema = z.object({ path: z.string(), rows: z.number() });

const changesSchema = z.object({
  run_id: z.string(),
  sequence: z.number(),
  synced_at: z.string(),
  rows: z.number(),
  /** Relative to `parquet/<stream>/`; empty if the job keeps no Parquet files. */
  files: z.array(z.string()),
  /** Of these files, in their order; left out by earlier versions. */
  sha256: z.array(z.string()).optional(),
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
  /** The changes of every run after `complete_since`, the oldest first; none of a first load, whose rows are in `snapshot`. */
  changes: z.array(changesSchema),
  /** A destination that has this sequence, or a later one, needs only `changes`. */
  complete_since: z.number(),
  /** The run that made the snapshot of `complete_since`; null if it is not known. With the runs of `changes` it makes the lineage. */
  complete_since_run: z.string().nullable(),
  /** SHA-256 of all the rest, as JSON; left out by earlier versions. */
  checksum: z.string().optional(),
});

/**
 * A stream's data for destinations: its present snapshot and the changes that led to it. Written when the commit is
 * published, so that a delivery needs neither the store nor the job's lock.
 */
export type Feed = z.infer<typeof feedSchema>;
export type FeedChanges = z.infer<typeof changesSchema>;

function checksumOf({ checksum: _, ...rest }: Feed): string {
  return createHash('sha256').update(JSON.stringify(rest)).digest('hex');
}

const feedFile: StateFile<Feed> = {
  schema: feedSchema.refine((feed) => feed.checksum === undefined || feed.checksum === checksumOf(feed)),
  hint: 'remove it; the next run writes it again, and destinations are then compared in full',
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
  await writeStateFile(path, { ...feed, checksum: checksumOf(feedSchema.parse(JSON.parse(JSON.stringify(feed)))) });
}

/** The run that made the snapshot of a number; undefined if the feed does not reach back that far, or does not know. */
export function runOfSnapshot(feed: Feed, sequence: number): string | undefined {
  if (sequence === feed.sequence) return feed.run_id;
  if (sequence === feed.complete_since) return feed.complete_since_run ?? undefined;
  return feed.changes.find((commit) => commit.sequence === sequence)?.run_id;
}

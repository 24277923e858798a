import { join } from 'node:path';
import { z } from 'zod';
import { readStateIfUsable, writeStateFile } from '../core/durable.js';
import type { JobLayout } from './layout.js';

const schema = z.object({ version: z.literal(1), streams: z.array(z.string()) });

/*
 * Streams that depend on a snapshot which a person has approved, and were not read since. Their changes follow from that approval, so
 * guards do not hold them a second time.
 */

function pathOf(layout: JobLayout): string {
  return join(layout.private, 'approved.json');
}

export async function followingStreams(layout: JobLayout): Promise<ReadonlySet<string>> {
  return new Set((await readStateIfUsable(pathOf(layout), schema))?.streams);
}

async function write(layout: JobLayout, streams: ReadonlySet<string>): Promise<void> {
  await writeStateFile(pathOf(layout), { version: 1, streams: [...streams].sort() });
}

/** Notes streams that depend on an approved one. */
export async function addFollowing(layout: JobLayout, streams: readonly string[]): Promise<void> {
  if (streams.length > 0) await write(layout, new Set([...(await followingStreams(layout)), ...streams]));
}

/** Removes streams that have been read. */
export async function dropFollowing(layout: JobLayout, streams: readonly string[]): Promise<void> {
  const before = await followingStreams(layout);
  const left = new Set([...before].filter((name) => !streams.includes(name)));
  if (left.size < before.size) await write(layout, left);
}

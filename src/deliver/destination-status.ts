import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readFeed } from '../store/feed.js';
import type { JobLayout } from '../store/layout.js';
import { readDeliveryState, writeDeliveryState } from './delivery-state.js';
import { outboxProgress } from './outbox.js';
import { countRejects, rejectsPath } from './rejects.js';

/** What a destination has of a stream, as the job's folder remembers it. */
export interface DestinationStatus {
  name: string;
  stream: string;
  table: string | null;
  /** Number of the snapshot that the destination has; null if nothing was delivered yet. */
  sequence: number | null;
  /** ISO 8601, UTC. */
  delivered_at: string | null;
  /** Number of commits that the destination lacks. */
  behind: number;
  /** When the run of the first of them began: ISO 8601, UTC; null if it lacks none, or that is not known. */
  behind_since: string | null;
  /** Number of changes that the destination lacks; null if it needs the whole snapshot. */
  pending: number | null;
  /** Number of rows that the destination refused; each delivery tries them again. */
  rejected: number;
  /** An unfinished delivery of records: their number, and how many are acknowledged. */
  outbox: { records: number; acknowledged: number } | null;
}

async function streamStatus(layout: JobLayout, name: string, stream: string): Promise<DestinationStatus> {
  const delivered = (await readDeliveryState(layout, name)).streams[stream];
  const feed = await readFeed(layout, stream);
  const has = delivered !== undefined && delivered.store_id === feed?.store_id ? delivered.sequence : undefined;
  const lacking = (feed?.changes ?? []).filter(({ sequence }) => sequence > (has ?? 0));
  const reaches = has !== undefined && has >= (feed?.complete_since ?? 0);
  const isBehind = feed !== undefined && (has === undefined || has < feed.sequence);
  return {
    name,
    stream,
    table: delivered?.table ?? null,
    sequence: delivered?.sequence ?? null,
    delivered_at: delivered?.delivered_at ?? null,
    behind: isBehind ? Math.max(1, lacking.length) : 0,
    behind_since: isBehind ? (lacking[0]?.synced_at ?? feed.synced_at) : null,
    pending: isBehind && !reaches ? null : lacking.reduce((sum, { rows }) => sum + rows, 0),
    rejected: (await countRejects(layout, name, stream)).all,
    outbox: (await outboxProgress(join(layout.deliveredStream(name, stream), 'outbox'))) ?? null,
  };
}

/**
 * What the destinations of a job have, without connecting to them.
 * @throws {CdsyncError} `state_unreadable`
 */
export async function destinationStatuses(
  layout: JobLayout,
  destinations: readonly { readonly name: string; readonly streams: readonly string[] }[],
): Promise<DestinationStatus[]> {
  const all = destinations.flatMap(({ name, streams }) => streams.map((stream) => streamStatus(layout, name, stream)));
  return Promise.all(all);
}

/**
 * Removes the files that the job's folder has of a destination: its refused rows, its outbox, its watermark if it cannot store
 * one itself, and the remembered state. Call it under the destination's lock.
 */
export async function forgetDestination(layout: JobLayout, name: string, streams: readonly string[]): Promise<void> {
  for (const stream of streams) {
    await rm(rejectsPath(layout, name, stream), { force: true });
    await rm(layout.deliveredStream(name, stream), { recursive: true, force: true });
  }
  const state = await readDeliveryState(layout, name);
  const kept = Object.entries(state.streams).filter(([stream]) => !streams.includes(stream));
  await writeDeliveryState(layout, { ...state, streams: Object.fromEntries(kept) });
}

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { readStateIfUsable, writeStateFile } from '../storage/durable.js';
import type { JobLayout } from '../storage/layout.js';

const streamSchema = z.object({
  table: z.string().nullable(),
  store_id: z.string(),
  sequence: z.number(),
  delivered_at: z.string(),
  /** Of the last load. */
  action: z.string().optional(),
  why: z.string().optional(),
  refused: z.number().optional(),
  /** Number of the last erasure that was carried out. */
  erased: z.number().optional(),
});

const stateSchema = z.object({
  version: z.literal(1),
  destination: z.string(),
  streams: z.record(z.string(), streamSchema),
});

/** What a destination had of a stream after the last delivery. */
type DeliveredStream = z.infer<typeof streamSchema>;
type DeliveryState = z.infer<typeof stateSchema>;

function statePath(layout: JobLayout, destination: string): string {
  return join(layout.delivery(destination), 'state.json');
}

/**
 * The remembered state of a destination; empty if its file cannot be read. That is harmless: only the status display uses it.
 */
export async function readDeliveryState(layout: JobLayout, destination: string): Promise<DeliveryState> {
  const found = await readStateIfUsable(statePath(layout, destination), stateSchema);
  return found ?? { version: 1, destination, streams: {} };
}

/** Remembers what a destination has of a stream. Call it under the destination's lock, for one stream at a time. */
export async function rememberDelivery(
  layout: JobLayout,
  destination: string,
  stream: string,
  delivered: DeliveredStream,
): Promise<void> {
  const { streams } = await readDeliveryState(layout, destination);
  const before = streams[stream];
  const remembered = { ...(before?.table === delivered.table ? before : {}), ...delivered };
  await writeDeliveryState(layout, { version: 1, destination, streams: { ...streams, [stream]: remembered } });
}

/** Call it under the destination's lock. */
export async function writeDeliveryState(layout: JobLayout, state: DeliveryState): Promise<void> {
  await mkdir(layout.delivery(state.destination), { recursive: true, mode: 0o700 });
  await writeStateFile(statePath(layout, state.destination), state);
}

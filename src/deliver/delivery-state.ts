import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { JobLayout } from '../store/layout.js';
import { readStateIfUsable, writeStateFile } from '../store/state-file.js';

const streamSchema = z.object({
  table: z.string().nullable(),
  store_id: z.string(),
  sequence: z.number(),
  definition: z.string(),
  delivered_at: z.string(),
  rejected: z.number(),
});

const stateSchema = z.object({
  version: z.literal(1),
  destination: z.string(),
  streams: z.record(z.string(), streamSchema),
});

/** What a destination had of a stream after the last delivery. */
export type DeliveredStream = z.infer<typeof streamSchema>;
export type DeliveryState = z.infer<typeof stateSchema>;

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
  await writeDeliveryState(layout, { version: 1, destination, streams: { ...streams, [stream]: delivered } });
}

/** Call it under the destination's lock. */
export async function writeDeliveryState(layout: JobLayout, state: DeliveryState): Promise<void> {
  await mkdir(layout.delivery(state.destination), { recursive: true, mode: 0o700 });
  await writeStateFile(statePath(layout, state.destination), state);
}

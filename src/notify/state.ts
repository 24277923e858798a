import { createHash } from 'node:crypto';
import type { NotifyOptions } from '../config/config.js';
import { readStateIfUsable, writeStateFile } from '../core/durable.js';
import { z } from '../core/zod.js';
import type { JobLayout } from '../storage/layout.js';
import { messageSchema } from './message.js';

const receiverSchema = z.object({
  /** The event keys of the last run that the receiver was notified of: see events.ts. */
  facts: z.array(z.string()),
  /** Messages that could not be delivered, oldest first. */
  waiting: z.array(messageSchema),
});

const deliverySchema = z.object({
  name: z.string(),
  stream: z.string(),
  status: z.enum(['partial', 'failed']),
  action: z.enum(['nothing', 'increment', 'append', 'reload', 'create', 'export', 'refused']),
  why: z.string(),
  rows: z.number(),
  refused: z.number(),
  seconds: z.number(),
  error: z
    .object({ code: z.string(), message: z.string(), hint: z.string().nullable(), request_id: z.string().nullable() })
    .nullable(),
});

const stateSchema = z.object({
  version: z.literal(1),
  /** Status of the last run, in any case. */
  status: z.string().nullable(),
  /** How the last run that was not interrupted has ended; null before the first. A failure in part is a failure. */
  settled: z.enum(['ok', 'held', 'failed']).nullable(),
  receivers: z.record(z.string(), receiverSchema),
  /** Deliveries that have failed and were not tried again with success. */
  deliveries: z.array(deliverySchema).default([]),
});

/** The state of a job's notifications: kept from run to run in `.cdsync/told.json`. */
export type NotificationState = z.output<typeof stateSchema>;
export type ChannelState = z.output<typeof receiverSchema>;
/** A delivery that has not succeeded since it failed. */
export type OpenFailure = z.output<typeof deliverySchema>;

/** The stored state; as before the first run without a usable one. That is no error: at worst a receiver is notified twice. */
export async function readNotificationState(layout: JobLayout): Promise<NotificationState> {
  const state = await readStateIfUsable(layout.notified, stateSchema);
  return state ?? { version: 1, status: null, settled: null, receivers: {}, deliveries: [] };
}

/** @throws errors of the file system */
export async function writeNotificationState(layout: JobLayout, state: NotificationState): Promise<void> {
  await writeStateFile(layout.notified, state);
}

/** Where a receiver is: a hash, for its URL is a secret. */
function placeKey({ webhook, ping, email, format = 'json' }: NotifyOptions): string {
  const url = webhook?.reveal() ?? ping?.reveal() ?? email?.smtp.reveal();
  const place = JSON.stringify([webhook && format, ping && 'ping', email?.to, url]);
  return createHash('sha256').update(place).digest('hex').slice(0, 24);
}

/** The keys by which receivers are remembered. Several at one address, with different events, have one each. */
export function channelKeys(notify: readonly NotifyOptions[]): string[] {
  const places = notify.map(placeKey);
  return places.map((place, at) => {
    const earlier = places.slice(0, at).filter((other) => other === place).length;
    return earlier === 0 ? place : `${place}-${earlier + 1}`;
  });
}

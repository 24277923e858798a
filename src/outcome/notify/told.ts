import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { NotifyOptions } from '../../config/config.js';
import type { JobLayout } from '../../store/layout.js';
import { readStateIfUsable, writeStateFile } from '../../store/state-file.js';
import { type Message, messageSchema } from './message.js';
import { deliverySchema } from './standing.js';

/** The most messages that wait for one receiver. The newest stay. */
const mostWaiting = 5;

const receiverSchema = z.object({
  /** What was true of the last run that the receiver was told of: see events.ts. */
  facts: z.array(z.string()),
  /** Messages that could not be delivered, oldest first. */
  waiting: z.array(messageSchema),
});

const toldSchema = z.object({
  version: z.literal(1),
  /** Status of the last run, in any case. */
  status: z.string().nullable(),
  settled: z.enum(['ok', 'held', 'failed']).nullable(),
  receivers: z.record(z.string(), receiverSchema),
  /** Deliveries that have failed and were not tried again with success. */
  deliveries: z.array(deliverySchema).default([]),
});

/** What receivers know of a job: kept from run to run in `.cdsync/told.json`. */
export type Told = z.output<typeof toldSchema>;
export type ReceiverMemory = z.output<typeof receiverSchema>;

/** A receiver's memory before anything was told. */
export const nothing: ReceiverMemory = { facts: [], waiting: [] };

/** What is kept; as before the first run if nothing usable is. It is not worth an error: at worst a receiver is told twice. */
export async function readTold(layout: JobLayout): Promise<Told> {
  const told = await readStateIfUsable(layout.told, toldSchema);
  return told ?? { version: 1, status: null, settled: null, receivers: {}, deliveries: [] };
}

/** @throws errors of the file system */
export async function keepTold(layout: JobLayout, told: Told): Promise<void> {
  await writeStateFile(layout.told, told);
}

/** Where a receiver is, as the key of its memory: a hash, for its URL is a secret. */
export function receiverKey({ webhook, ping, email, format = 'json' }: NotifyOptions): string {
  const url = webhook?.reveal() ?? ping?.reveal() ?? email?.smtp.reveal();
  const place = JSON.stringify([webhook && format, ping && 'ping', email?.to, url]);
  return createHash('sha256').update(place).digest('hex').slice(0, 24);
}

/** Messages that wait, with one more. */
export function withWaiting(waiting: readonly Message[], message: Message): Message[] {
  return [...waiting, { ...message, late: true }].slice(-mostWaiting);
}

import { mkdir, readFile, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import pLimit from 'p-limit';
import { readStateFile, readStateIfUsable, writeFileAtomically, writeStateFile } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { sealedContents, sealedLines } from '../core/sealed-json.js';
import { z } from '../core/zod.js';
import type { OutgoingRecord } from '../sdk/destination.js';
import type { Erasure } from '../storage/erasures.js';
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
  /** Whether something that loads have left there is still to be removed. */
  owes: z.boolean().optional(),
  /** The next delivery begins again, but the receiver may have rows: the state was reset, or the first delivery has not ended. */
  begins: z.literal(true).optional(),
});

const stateSchema = z.object({
  version: z.literal(1),
  destination: z.string(),
  streams: z.record(z.string(), streamSchema),
});

/** The state of a stream at a destination after the last delivery. */
type DeliveredStream = z.infer<typeof streamSchema>;
type DeliveryState = z.infer<typeof stateSchema>;

function statePath(layout: JobLayout, destination: string): string {
  return join(layout.delivery(destination), 'state.json');
}

const hint =
  'restore it from a backup; or remove it, and the next delivery writes it again. Erasures then ask only the configured destinations';

/**
 * The remembered state of a destination.
 * @throws {CdsyncError} `state_unreadable`: taken for none, an erasure would pass over the destination and be done
 */
export async function readDeliveryState(layout: JobLayout, destination: string): Promise<DeliveryState> {
  const state = await readStateFile(statePath(layout, destination), { schema: stateSchema, hint });
  return state ?? { version: 1, destination, streams: {} };
}

/** The same for who shows or removes it; empty if its file cannot be read. */
export async function deliveryStateIfUsable(layout: JobLayout, destination: string): Promise<DeliveryState> {
  const state = await readStateIfUsable(statePath(layout, destination), stateSchema);
  return state ?? { version: 1, destination, streams: {} };
}

/** Streams are delivered in parallel, and one file has the state of all. */
const inTurn = pLimit(1);

function change(
  layout: JobLayout,
  destination: string,
  stream: string,
  next: (before: DeliveredStream | undefined) => DeliveredStream | undefined,
): Promise<void> {
  return inTurn(async () => {
    const { streams } = await readDeliveryState(layout, destination);
    const remembered = next(streams[stream]);
    if (remembered === undefined) return;
    await writeDeliveryState(layout, { version: 1, destination, streams: { ...streams, [stream]: remembered } });
  });
}

/** Remembers the state of a stream at a destination. Call it under the destination's lock. */
export function rememberDelivery(
  layout: JobLayout,
  destination: string,
  stream: string,
  delivered: DeliveredStream,
): Promise<void> {
  return change(layout, destination, stream, (before) => {
    const { begins: _, ...remembered } = before?.table === delivered.table ? (before ?? {}) : {};
    return { ...remembered, ...delivered };
  });
}

/** Remembers that a first delivery begins to send. Call it as {@link rememberDelivery}. */
export function rememberBegin(
  layout: JobLayout,
  destination: string,
  stream: string,
  begun: DeliveredStream,
): Promise<void> {
  return change(layout, destination, stream, (before) =>
    before === undefined ? { ...begun, begins: true } : undefined,
  );
}

interface Place {
  readonly context: { readonly layout: JobLayout };
  readonly request: { readonly destination: { readonly name: string } };
  readonly feed: { readonly stream: string };
}

/**
 * Number of the last erasure that a receiver without a record has carried out; undefined if it never got a row.
 * @param recorded the number in the state of the deliveries there; undefined if that begins, or was lost
 */
export async function erasedAt(
  { context, request, feed }: Place,
  recorded: number | undefined,
): Promise<number | undefined> {
  const remembered = (await readDeliveryState(context.layout, request.destination.name)).streams[feed.stream];
  if (remembered === undefined) return recorded;
  // The receiver may have refused the delete of an erasure that its state has.
  const erased = remembered.erased ?? recorded ?? 0;
  return Math.min(erased, recorded ?? erased);
}

/** Remembers that values may be left to remove: the load that removes them is under way, or has failed. Call it as {@link rememberDelivery}. */
export function rememberOwed(layout: JobLayout, destination: string, stream: string): Promise<void> {
  return change(layout, destination, stream, (before) => before && { ...before, owes: true });
}

/** Call it under the destination's lock. */
export async function writeDeliveryState(layout: JobLayout, state: DeliveryState): Promise<void> {
  await mkdir(layout.delivery(state.destination), { recursive: true, mode: 0o700 });
  await writeStateFile(statePath(layout, state.destination), state);
}

/** A value that a destination cannot hold: it is NULL there. If it is a part of the key, the row is not there. */
export interface Reject {
  /** The text of the key column or, for several, a JSON list of their texts; null if a part of the key is missing. */
  readonly key: string | null;
  readonly column: string | null;
  readonly reason: string;
  /** The run that wrote the row. */
  readonly run_id: string;
  /** How a record would have been sent. Left out where rows are loaded. */
  readonly op?: OutgoingRecord['op'] | undefined;
  /** The receiver failed on the record, and did not refuse it. */
  readonly is_waiting?: boolean | undefined;
}

/** The folder for the files of deliveries under way. One that is killed leaves them, with rows of the stream. */
export function workFolder(layout: JobLayout, destination: string): string {
  return join(layout.delivery(destination), 'work');
}

/** The file of the values of a stream that a destination cannot hold, one JSON object a line. */
export function rejectsPath(layout: JobLayout, destination: string, stream: string): string {
  return join(layout.delivery(destination), 'rejects', `${stream}.jsonl`);
}

/**
 * Reads a file of rejects. Of records that are sent, it is the only list of those that wait.
 * @param begins whether the delivery begins a new list, and a damaged one does not matter
 * @throws {CdsyncError} `state_unreadable`
 */
export async function listedRejects(path: string, { begins = false } = {}): Promise<Reject[]> {
  try {
    return sealedContents(await readFile(path, 'utf8')) as Reject[];
  } catch (cause) {
    if (begins || (cause as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw new CdsyncError(`${path}, the list of refused and waiting values, is damaged`, {
      code: 'state_unreadable',
      hint: 'cdsync push --full makes it again: it sends all records of the stream',
      cause,
    });
  }
}

/** The same where a delivery that misses them makes the list again: none if it cannot be read. */
export function readRejects(path: string): Promise<Reject[]> {
  return listedRejects(path, { begins: true });
}

/** Replaces a file of rejects; without rejects, removes it. */
export async function writeRejects(path: string, rejects: readonly Reject[]): Promise<void> {
  if (rejects.length === 0) return rm(path, { recursive: true, force: true });
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFileAtomically(path, sealedLines(rejects));
}

/** The identity of a refused value, and of a refused record: the receiver may word its reason in another way in each response. */
const identities = {
  value: ({ key, column, reason }: Reject) => JSON.stringify([key, column, reason]),
  record: ({ key, column, op }: Reject) => JSON.stringify([key, column, op]),
};

/** How many values, or records, of a list of rejects an earlier list does not have. */
export function countNew(
  rejects: readonly Reject[],
  before: readonly Reject[],
  kind: keyof typeof identities = 'value',
): number {
  const identity = identities[kind];
  const earlier = new Set(before.map(identity));
  return rejects.filter((reject) => !earlier.has(identity(reject))).length;
}

/** Number of the last erasure of a stream; 0 if there was none. */
export function lastErasure(erasures: readonly Erasure[]): number {
  return erasures.at(-1)?.number ?? 0;
}

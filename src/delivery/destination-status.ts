import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { runStart } from '../core/run-report.js';
import { readFeed } from '../snapshot/feed.js';
import type { Session } from '../storage/duckdb.js';
import { readErasures } from '../storage/erasures.js';
import type { JobLayout } from '../storage/layout.js';
import { namesIn } from '../storage/storage.js';
import {
  deliveryStateIfUsable,
  readDeliveryState,
  readRejects,
  rejectsPath,
  workFolder,
  writeDeliveryState,
  writeRejects,
} from './delivery-state.js';
import { plannedFolder, readExportState, writeExportState } from './files/file-state.js';
import type { DestinationStatus } from './lag-words.js';
import { eraseFromOutbox, outboxProgress } from './records/outbox.js';

async function streamStatus(layout: JobLayout, name: string, stream: string): Promise<DestinationStatus> {
  const remembered = (await deliveryStateIfUsable(layout, name)).streams[stream];
  const delivered = remembered?.begins === true ? undefined : remembered;
  const feed = await readFeed(layout, stream);
  const listed = await readRejects(rejectsPath(layout, name, stream));
  const erasures = await readErasures(layout, stream);
  const has = delivered !== undefined && delivered.store_id === feed?.store_id ? delivered.sequence : undefined;
  const waiting = erasures.filter(({ number, keys }) => keys !== null && number > (remembered?.erased ?? 0));
  const lacking = (feed?.changes ?? []).filter(({ sequence }) => sequence > (has ?? 0));
  const reaches = has !== undefined && has >= (feed?.complete_since ?? 0);
  // The commit before the changes, if the destination lacks that too.
  const base = reaches ? undefined : runStart(feed?.complete_since_run);
  const isBehind = feed !== undefined && (has === undefined || has < feed.sequence);
  return {
    name,
    stream,
    table: delivered?.table ?? null,
    sequence: delivered?.sequence ?? null,
    delivered_at: delivered?.delivered_at ?? null,
    behind: isBehind ? Math.max(1, lacking.length + (base === undefined ? 0 : 1)) : 0,
    behind_since: isBehind ? (base ?? lacking[0]?.synced_at ?? feed.synced_at) : null,
    pending: isBehind && !reaches ? null : lacking.reduce((sum, { rows }) => sum + rows, 0),
    last_action: delivered?.action ?? null,
    last_why: delivered?.why ?? null,
    refused: listed.filter(({ is_waiting }) => !is_waiting).length,
    waiting: listed.filter(({ is_waiting }) => is_waiting).length,
    erasures_pending: waiting.length + (remembered?.owes === true ? 1 : 0),
    erasures_since: waiting[0] === undefined ? null : new Date(waiting[0].number).toISOString(),
    outbox: (await outboxProgress(join(layout.deliveredStream(name, stream), 'outbox'))) ?? null,
  };
}

/**
 * The states of a job's destinations, without connecting to them.
 * @throws {CdsyncError} `state_unreadable`
 */
export async function destinationStatuses(
  layout: JobLayout,
  destinations: readonly { readonly name: string; readonly streams: readonly string[] }[],
): Promise<DestinationStatus[]> {
  const all = destinations.flatMap(({ name, streams }) => streams.map((stream) => streamStatus(layout, name, stream)));
  return Promise.all(all);
}

/** Names whose data a job's folder still has, although its configuration no longer has them. */
export interface Unconfigured {
  streams: string[];
  destinations: string[];
}

/** What left the configuration of a job, but not its folder. */
export async function unconfiguredIn(
  layout: JobLayout,
  streams: readonly string[],
  destinations: readonly { readonly name: string }[],
): Promise<Unconfigured> {
  const stored = (await namesIn(dirname(layout.feed('any')))).flatMap((name) => /^(.+)\.json$/.exec(name)?.[1] ?? []);
  const delivered: string[] = [];
  for (const name of await namesIn(layout.deliveries))
    if (Object.keys((await deliveryStateIfUsable(layout, name)).streams).length > 0) delivered.push(name);
  return {
    streams: stored.filter((name) => !streams.includes(name)).sort(),
    destinations: delivered.filter((name) => !destinations.some((destination) => destination.name === name)).sort(),
  };
}

/**
 * Erases keys from the rejects of a destination and from its records that wait, and removes files that a killed delivery has left. Call it under the destination's lock.
 */
export async function eraseFromDestination(
  session: Session,
  layout: JobLayout,
  { destination, stream, keys }: { destination: string; stream: string; keys: readonly string[] },
): Promise<void> {
  await rm(workFolder(layout, destination), { recursive: true, force: true });
  const path = rejectsPath(layout, destination, stream);
  const rejects = await readRejects(path);
  const left = rejects.filter(({ key }) => key === null || !keys.includes(key));
  if (left.length < rejects.length) await writeRejects(path, left);
  // Planned files are made again without them.
  await rm(plannedFolder(layout.deliveredStream(destination, stream)), { recursive: true, force: true });
  await eraseFromOutbox(session, join(layout.deliveredStream(destination, stream), 'outbox'), keys);
}

/**
 * Removes the files that the job's folder has of a destination: its refused rows, its outbox, its position if it cannot store
 * one itself, and the remembered state. Call it under the destination's lock.
 */
export async function forgetDestination(layout: JobLayout, name: string, streams: readonly string[]): Promise<void> {
  const state = await deliveryStateIfUsable(layout, name);
  const kept = Object.entries(state.streams).filter(([stream]) => !streams.includes(stream));
  await writeDeliveryState(layout, { ...state, streams: Object.fromEntries(kept) });
  for (const stream of streams) await removeFiles(layout, name, stream);
}

/**
 * Removes the same files, but for what erasures need: which of them the destination has carried out, and the names of files that were
 * handed over. Call it under the destination's lock.
 */
export async function resetDelivery(layout: JobLayout, name: string, streams: readonly string[]): Promise<void> {
  const state = await readDeliveryState(layout, name);
  const kept = Object.entries(state.streams).map(
    ([stream, delivered]) =>
      [stream, streams.includes(stream) ? { ...delivered, begins: true as const } : delivered] as const,
  );
  await writeDeliveryState(layout, { ...state, streams: Object.fromEntries(kept) });
  for (const stream of streams) {
    const folder = layout.deliveredStream(name, stream);
    const handed = await readExportState(folder).catch(() => undefined);
    await removeFiles(layout, name, stream);
    if (handed !== undefined && handed.number > 0)
      await writeExportState(folder, { ...handed, last: null, plan: null });
  }
}

async function removeFiles(layout: JobLayout, name: string, stream: string): Promise<void> {
  await rm(rejectsPath(layout, name, stream), { force: true });
  await rm(layout.deliveredStream(name, stream), { recursive: true, force: true });
}

import { CdsyncError } from '../core/errors.js';
import { type Decision, DecisionLog, type ErasurePlace, recordDecisions } from '../storage/decisions.js';
import { dropErasedKeys } from '../storage/erasures.js';
import type { JobLayout } from '../storage/layout.js';
import { removalOwedSince } from '../storage/removal-owed.js';
import { namesIn } from '../storage/storage.js';
import { readDeliveryState } from './delivery-state.js';

/** An erasure, and when each place was done: ISO 8601; null while it waits. */
export interface ErasureStatus {
  number: number;
  at: string;
  user: string;
  reason: string | null;
  keys: number;
  everywhere: boolean;
  /** The storage folder; `run_id` of the commit. */
  storage: { done_at: string | null; run_id: string | null };
  streams: { name: string; rows: number; history: number }[];
  destinations: (ErasurePlace & { done_at: string | null; removed: boolean })[];
  done: boolean;
}

/** The erasures of a job, and its other decisions. */
export interface ErasureLog {
  job: string;
  status: 'ok' | 'pending';
  erasures: ErasureStatus[];
  /** Keys that are left out when the service returns them, over all streams. */
  left_out: number;
  decisions: Pick<Decision, 'at' | 'user' | 'action' | 'run_id'>[];
}

const isSame = (one: ErasurePlace, other: ErasurePlace) =>
  one.destination === other.destination && one.stream === other.stream;

function erasureStatus(decision: Decision, all: readonly Decision[], owedSince: string | undefined): ErasureStatus {
  const { erasure = 0, at, user, reason = null, keys = [], everywhere = false, places = [] } = decision;
  const erased = all.findLast((decision) => decision.action === 'erased' && decision.erasure === erasure);
  const destinations = places.map((place) => {
    const delivered = all.find(
      (decision) =>
        decision.action === 'delivered' &&
        decision.erasure === erasure &&
        decision.places?.some((other) => isSame(place, other)),
    );
    const removed = all.find(
      (decision) =>
        decision.action === 'removed' && decision.at >= at && decision.places?.some((other) => isSame(place, other)),
    );
    return {
      ...place,
      done_at: (delivered ?? removed)?.at ?? null,
      removed: delivered === undefined && removed !== undefined,
    };
  });
  // The commit has erased the rows, but the bucket may still have objects of the state before.
  const isOwed = owedSince !== undefined && erased !== undefined && erased.at >= owedSince;
  const rowsOf = (name: string) => erased?.streams?.find((stream) => stream.name === name);
  return {
    number: erasure,
    at,
    user,
    reason,
    keys: keys.length,
    everywhere,
    storage: { done_at: isOwed ? null : (erased?.at ?? null), run_id: erased?.run_id ?? null },
    streams: (decision.streams ?? []).map(({ name }) => ({
      name,
      rows: rowsOf(name)?.rows ?? 0,
      history: rowsOf(name)?.history ?? 0,
    })),
    destinations,
    done: erased !== undefined && !isOwed && destinations.every(({ done_at, untold }) => done_at !== null || untold),
  };
}

/** A later erasure of the same keys does the work that an earlier one, which was cut short, has left. */
function isRepeated(decision: Decision, all: readonly Decision[]): boolean {
  const erased = new Set(all.flatMap(({ action, erasure }) => (action === 'erased' ? [erasure] : [])));
  if (erased.has(decision.erasure)) return false;
  const hashes = new Set(decision.keys?.map(([first]) => first));
  return all.some(
    (later) =>
      later.action === 'forget' &&
      erased.has(later.erasure) &&
      (later.erasure ?? 0) > (decision.erasure ?? 0) &&
      [...hashes].every((hash) => later.keys?.some((forms) => forms[0] === hash)),
  );
}

/** Reads which erasures of a job are done, and where others wait. @throws {CdsyncError} `state_unreadable` */
export async function erasureLog(layout: JobLayout): Promise<ErasureLog> {
  const { decisions } = await DecisionLog.read(layout);
  const begun = decisions.filter((decision) => decision.action === 'forget' && !isRepeated(decision, decisions));
  const owedSince = await removalOwedSince(layout);
  const erasures = begun.map((decision) => erasureStatus(decision, decisions, owedSince));
  const left = new Map<string, true>();
  for (const { action, keys = [] } of decisions)
    for (const [first = '', ...rest] of keys)
      if (action === 'forget') left.set(first, true);
      else if (action === 'allow') for (const hash of [first, ...rest]) left.delete(hash);
  return {
    job: layout.job,
    status: erasures.every(({ done }) => done) ? 'ok' : 'pending',
    erasures,
    left_out: left.size,
    decisions: decisions
      .filter(({ action }) => action !== 'forget' && action !== 'erased' && action !== 'delivered')
      .map(({ at, user, action, run_id }) => ({ at, user, action, ...(run_id === undefined ? {} : { run_id }) })),
  };
}

/**
 * Lets forgotten keys in again when the service returns them.
 * @returns the number of keys that a job has left out until now
 */
export async function allowKeys(
  layout: JobLayout,
  nowMs: number,
  { keys, reason }: { keys: readonly string[]; reason?: string | undefined },
): Promise<number> {
  const log = await DecisionLog.read(layout);
  const forms = log.formsOf(keys);
  if (forms.length === 0) return 0;
  await recordDecisions(layout, nowMs, () => [
    { action: 'allow', keys: forms, ...(reason === undefined ? {} : { reason }) },
  ]);
  return forms.length;
}

/** Notes which erasures a job's destinations have carried out. */
async function noteCarriedOut(layout: JobLayout, nowMs: number): Promise<void> {
  const { erasures } = await erasureLog(layout).catch((error: unknown) => {
    if (error instanceof CdsyncError) return { erasures: [] };
    throw error;
  });
  const done: { erasure: number; place: ErasurePlace }[] = [];
  for (const { number, storage, destinations } of erasures) {
    // Cut short before its commit: the snapshot has the rows, and destinations keep them.
    if (storage.run_id === null) continue;
    for (const { done_at, removed: _, ...place } of destinations) {
      if (done_at !== null || place.untold) continue;
      const state = (await readDeliveryState(layout, place.destination)).streams[place.stream];
      if ((state?.erased ?? 0) >= number && state?.owes !== true) done.push({ erasure: number, place });
    }
  }
  if (done.length === 0) return;
  await recordDecisions(layout, nowMs, () =>
    done.map(({ erasure, place }) => ({ action: 'delivered', erasure, places: [place] })),
  );
}

/**
 * Notes which erasures the destinations have carried out, and removes the keys that none of them waits for. Call it after a delivery, and
 * when a destination has left the configuration.
 * @param destinations all that the configuration has for the job
 */
export async function dropCarriedOut(
  layout: JobLayout,
  nowMs: number,
  destinations: readonly { readonly name: string; readonly streams: readonly string[] }[],
): Promise<void> {
  await noteCarriedOut(layout, nowMs);
  for (const stream of await namesIn(layout.erasuresFolder)) {
    const receivers = destinations.filter(({ streams }) => streams.includes(stream));
    const states = await Promise.all(receivers.map(({ name }) => readDeliveryState(layout, name)));
    await dropErasedKeys(layout, stream, Math.min(...states.map(({ streams }) => streams[stream]?.erased ?? 0)));
  }
}

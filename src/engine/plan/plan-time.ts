import type { ApiGroup } from '../../core/service-options.js';

/** The requests of a stream. */
export interface Load {
  readonly group: ApiGroup;
  readonly requests: number;
  /** Number of requests in each chain; those of one chain follow one after the other. */
  readonly chains: readonly number[];
  readonly roundTripMs: number;
  /** Milliseconds that the stream takes by its past runs; undefined if they do not tell. */
  readonly pastMs?: number | undefined;
}

/** Milliseconds that a stream takes: by its past or, without one, by the round trips of its requests and the concurrency. */
export function streamTime({ requests, chains, roundTripMs, pastMs }: Load, concurrency: number): number {
  if (pastMs !== undefined) return pastMs;
  const inTurn = Math.max(0, ...chains.map((chain) => chain * roundTripMs));
  return Math.max(inTurn, (requests * roundTripMs) / concurrency);
}

/** How long the streams take, begun in this order, `lanes` of them at once. */
function inLanes(times: readonly number[], lanes: number): number {
  const busy = Array.from({ length: lanes }, () => 0);
  for (const time of times) {
    const free = busy.indexOf(Math.min(...busy));
    busy[free] = (busy[free] ?? 0) + time;
  }
  return Math.max(...busy);
}

/** A request holds its permit from its sending until a second after its answer has begun. */
const permitMs = 1_000;
/** A share of the limit that counts as all of it. */
const allOf = 0.98;

/** How much of a limit requests with this round trip can use. */
export interface Reach {
  readonly round_trip_ms: number;
  /** Requests under way at once: chains of pages, at most `concurrency`. */
  readonly at_once: number;
  /** The share of the limit that they can use, from 0 to 1. */
  readonly share: number;
  /** The share that any number of requests at once could use: a permit is in use for a second and a round trip. */
  readonly best_share: number;
  /** The smallest number of requests at once that uses 98 % of the limit, or the best share if that is less. */
  readonly needed_at_once: number;
}

/** What the round trip and the number of requests under way leave of a limit. */
export function reach(limit: number, { atOnce, roundTripMs }: { atOnce: number; roundTripMs: number }): Reach {
  const best = permitMs / (permitMs + roundTripMs);
  const goal = Math.min(allOf, best);
  return {
    round_trip_ms: Math.round(roundTripMs * 10) / 10,
    at_once: atOnce,
    share: Math.min(best, (atOnce * 1000) / Math.max(roundTripMs, 1e-3) / limit),
    best_share: best,
    needed_at_once: Math.max(1, Math.ceil((goal * limit * roundTripMs) / 1000)),
  };
}

/** For each API group: the number of requests, and how long they take if only the group's limit slows them. */
export function budgets(
  loads: readonly Load[],
  { limits, concurrency }: { limits: Readonly<Record<ApiGroup, number>>; concurrency: number },
): { group: ApiGroup; limit: number; requests: number; seconds: number; reach: Reach }[] {
  const groups: ApiGroup[] = ['profile', 'management', 'realtime'];
  return groups.flatMap((group) => {
    const own = loads.filter((load) => load.group === group);
    const requests = own.reduce((sum, load) => sum + load.requests, 0);
    if (requests === 0) return [];
    const limit = limits[group];
    const roundTripMs = own.reduce((sum, load) => sum + load.requests * load.roundTripMs, 0) / requests;
    const atOnce = Math.min(concurrency, Math.max(1, ...own.map(({ chains }) => chains.length)));
    return [{ group, limit, requests, seconds: requests / limit, reach: reach(limit, { atOnce, roundTripMs }) }];
  });
}

/** Milliseconds to read the streams at the same time: their own times or the rate limits decide, whichever is slower. */
export function readingTime(
  loads: readonly Load[],
  { limits, concurrency, lanes }: { limits: Readonly<Record<ApiGroup, number>>; concurrency: number; lanes: number },
): number {
  const byTrips = inLanes(
    loads.map((load) => streamTime(load, concurrency)),
    lanes,
  );
  return Math.max(byTrips, ...budgets(loads, { limits, concurrency }).map(({ seconds }) => seconds * 1000));
}

import type { ApiGroup } from '../../core/service-options.js';

/** The requests of a stream. */
export interface Load {
  readonly group: ApiGroup;
  readonly requests: number;
  /** Number of requests in each chain; those of one chain follow one after the other. */
  readonly chains: readonly number[];
  readonly roundTripMs: number;
}

/** Milliseconds that a stream's requests take if only their round trips and the concurrency limit them. */
export function streamTime({ requests, chains, roundTripMs }: Load, concurrency: number): number {
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

/** For each API group: the number of requests, and how long they take if only the group's limit slows them. */
export function budgets(
  loads: readonly Load[],
  limits: Readonly<Record<ApiGroup, number>>,
): { group: ApiGroup; limit: number; requests: number; seconds: number }[] {
  const groups: ApiGroup[] = ['profile', 'management', 'realtime'];
  return groups.flatMap((group) => {
    const requests = loads.filter((load) => load.group === group).reduce((sum, load) => sum + load.requests, 0);
    const limit = limits[group];
    return requests === 0 ? [] : [{ group, limit, requests, seconds: requests / limit }];
  });
}

/** Milliseconds to read the streams at the same time: round trips or rate limits decide, whichever is slower. */
export function readingTime(
  loads: readonly Load[],
  { limits, concurrency, lanes }: { limits: Readonly<Record<ApiGroup, number>>; concurrency: number; lanes: number },
): number {
  const byTrips = inLanes(
    loads.map((load) => streamTime(load, concurrency)),
    lanes,
  );
  return Math.max(byTrips, ...budgets(loads, limits).map(({ seconds }) => seconds * 1000));
}

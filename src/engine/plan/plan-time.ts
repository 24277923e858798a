import type { ApiGroup } from '../../core/service-options.js';

/** What a stream asks of the service. */
export interface Load {
  readonly group: ApiGroup;
  readonly requests: number;
  /** Requests that are made one after the other, chain by chain. */
  readonly chains: readonly number[];
  readonly roundTripMs: number;
}

/** How long a stream's requests take, if nothing but their round trips and the concurrency hold them up: milliseconds. */
export function streamTime({ requests, chains, roundTripMs }: Load, concurrency: number): number {
  const inTurn = Math.max(0, ...chains.map((chain) => chain * roundTripMs));
  return Math.max(inTurn, (requests * roundTripMs) / concurrency);
}

/** How long streams take that begin in this order, `lanes` of them at once. */
function inLanes(times: readonly number[], lanes: number): number {
  const busy = Array.from({ length: lanes }, () => 0);
  for (const time of times) {
    const free = busy.indexOf(Math.min(...busy));
    busy[free] = (busy[free] ?? 0) + time;
  }
  return Math.max(...busy);
}

/** Of each group, how many requests there are, and how long they take at the group's limit alone. */
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

/** How long it takes to read streams side by side: milliseconds. It is bound by round trips, or by the limits. */
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

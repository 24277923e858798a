import type { JobReport, StreamReport } from '../../core/run-report.js';
import type { ApiGroup } from '../../core/service-options.js';
import type { PlannedReading } from './plan-stream.js';

/** The requests of a stream. */
export interface Load {
  readonly group: ApiGroup;
  readonly requests: number;
  /** Number of requests in each chain; those of one chain follow one after the other. */
  readonly chains: readonly number[];
  readonly roundTripMs: number;
  /** Milliseconds of the last run like the planned one; undefined without one. */
  readonly lastMs?: number | undefined;
}

/** Requests a second, for each group. */
type Limits = Readonly<Record<ApiGroup, number>>;

/** How many runs of the past are looked at. */
export const pastRunsAsked = 30;
/** A run with this many times the requests, or a part of them, says nothing about the planned one. */
const alike = 2;

interface PlannedRequests extends Pick<PlannedReading, 'reads'> {
  readonly requests: number;
}

function compares(past: StreamReport, { reads, requests }: PlannedRequests): boolean {
  if (past.status !== 'ok' || past.requests === 0) return false;
  if ((past.partitions !== null) !== (reads === 'partitions')) return false;
  return past.requests <= requests * alike && requests <= past.requests * alike;
}

/**
 * Milliseconds that the stream took in its last run of status ok that read it in the same way.
 * @param past reports of the job's runs, newest first
 */
export function lastTime(
  stream: string,
  planned: PlannedRequests,
  past: readonly Pick<JobReport, 'resumed' | 'streams'>[],
): number | undefined {
  const unbroken = past.filter(({ resumed }) => !resumed).flatMap(({ streams }) => streams);
  const last = unbroken.find((report) => report.name === stream && compares(report, planned));
  return last === undefined ? undefined : last.seconds * 1000;
}

/** Milliseconds that a stream takes: those of its last run or, without one, of the limit or of its longest chain. */
export function streamTime({ group, requests, chains, roundTripMs, lastMs }: Load, limits: Limits): number {
  return lastMs ?? Math.max((requests / limits[group]) * 1000, Math.max(0, ...chains) * roundTripMs);
}

/** For each API group: the number of requests, and how long they take if only the group's limit slows them. */
export function budgets(
  loads: readonly Load[],
  limits: Limits,
): { group: ApiGroup; limit: number; requests: number; seconds: number }[] {
  const groups: ApiGroup[] = ['profile', 'management', 'realtime'];
  return groups.flatMap((group) => {
    const requests = loads.reduce((sum, load) => (load.group === group ? sum + load.requests : sum), 0);
    return requests === 0 ? [] : [{ group, limit: limits[group], requests, seconds: requests / limits[group] }];
  });
}

/** Milliseconds to read the streams at the same time: the slowest of them or of the limits decides. */
export function readingTime(loads: readonly Load[], limits: Limits): number {
  const times = loads.map((load) => streamTime(load, limits));
  return Math.max(0, ...times, ...budgets(loads, limits).map(({ seconds }) => seconds * 1000));
}

import { median } from '../../core/quantities.js';
import type { JobReport, StreamReport } from '../../core/run-report.js';
import type { PlannedReading } from './plan-stream.js';

/** How many runs of the past are looked at. */
export const pastRunsAsked = 30;
/** With fewer runs like the planned one, the round trip of the sample counts. */
const leastRuns = 3;
/** A reading with this many times the requests, or a part of them, is another kind of reading. */
const alike = 2;

/** What the past says of a reading. */
export interface PastPace {
  /** Milliseconds that the reading would take, by the median time of a request. */
  readonly milliseconds: number;
  /** How many runs that is of. */
  readonly runs: number;
}

/** A planned reading, with what its stream's past says of its time. */
export interface TimedReading extends PlannedReading {
  readonly pace?: PastPace | undefined;
}

function isAlike(a: number, b: number): boolean {
  return a <= b * alike && b <= a * alike;
}

/** Whether a past reading was like the planned one: whole, with about as many requests, in about as many parts. */
function compares(past: StreamReport, { reads, requests, chains }: PlannedRequests): boolean {
  if (past.status !== 'ok' || !(past.requests > 0) || !(past.seconds > 0)) return false;
  const parts = past.partitions?.chains ?? null;
  if ((parts !== null) !== (reads === 'partitions')) return false;
  return isAlike(past.requests, requests) && (parts === null || isAlike(parts, chains));
}

interface PlannedRequests extends Pick<PlannedReading, 'reads'> {
  readonly requests: number;
  readonly chains: number;
}

/**
 * How long a reading takes by the past of its stream: the median time of a request in the runs that read as the planned run would,
 * for the number of its requests. A median stays when a night was slow, and when the network is busy at the moment of asking.
 * @param past reports of the job's runs
 * @returns undefined if fewer than three runs are like the planned one
 */
export function pastPace(
  stream: string,
  planned: PlannedRequests,
  past: readonly Pick<JobReport, 'resumed' | 'streams'>[],
): PastPace | undefined {
  const whole = past.filter(({ resumed }) => !resumed).flatMap(({ streams }) => streams);
  const same = whole.filter((each) => each.name === stream && compares(each, planned));
  if (same.length < leastRuns) return undefined;
  const perRequest = median(same.map(({ seconds, requests }) => seconds / requests));
  return { milliseconds: perRequest * planned.requests * 1000, runs: same.length };
}

import { z } from 'zod';
import type { DestinationReport } from '../../core/run.js';
import type { RunEnd } from '../run-end.js';

const error = z.object({
  code: z.string(),
  message: z.string(),
  hint: z.string().nullable(),
  request_id: z.string().nullable(),
});

export const deliverySchema = z.object({
  name: z.string(),
  stream: z.string(),
  status: z.enum(['partial', 'failed']),
  rows: z.number(),
  waiting: z.number(),
  seconds: z.number(),
  error: error.nullable(),
});

/** A delivery that has not succeeded since it failed. */
export type StandingDelivery = z.output<typeof deliverySchema>;

const isSame = (one: DestinationReport, other: DestinationReport) =>
  one.name === other.name && one.stream === other.stream;

/** A destination that was skipped has not been tried. */
function untried(end: Pick<RunEnd, 'destinations'>, standing: readonly StandingDelivery[]): StandingDelivery[] {
  const tried = end.destinations.filter(({ status }) => status !== 'skipped');
  return standing.filter((each) => !tried.some((other) => isSame(each, other)));
}

/**
 * How a job stands after a run or a delivery that did not try all destinations: what failed to be delivered before is not well for
 * that. So a night of `run --no-push` and a `push` that fails is told as one failure, not by turns as well and failed.
 */
export function withStanding(end: RunEnd, standing: readonly StandingDelivery[]): RunEnd {
  const left = untried(end, standing);
  if (left.length === 0 || (end.status !== 'ok' && end.status !== 'held' && end.status !== 'partial')) return end;
  const others = end.destinations.filter((each) => !left.some((other) => isSame(each, other)));
  return { ...end, status: 'partial', destinations: [...others, ...left] };
}

/** The failed deliveries that stand after it. */
export function standingAfter(end: RunEnd, standing: readonly StandingDelivery[]): StandingDelivery[] {
  const failed = end.destinations.flatMap(({ status, waiting, ...facts }): StandingDelivery[] =>
    status === 'failed' || status === 'partial' ? [{ ...facts, status, waiting: waiting ?? 0 }] : [],
  );
  return [...untried(end, standing), ...failed];
}

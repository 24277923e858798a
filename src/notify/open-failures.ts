import { z } from 'zod';
import type { DestinationReport } from '../core/run-report.js';
import type { RunResult } from './result.js';

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
  action: z.enum(['nothing', 'increment', 'append', 'reload', 'create', 'refused']),
  why: z.string(),
  rows: z.number(),
  refused: z.number(),
  seconds: z.number(),
  error: error.nullable(),
});

/** A delivery that has not succeeded since it failed. */
type OpenFailure = z.output<typeof deliverySchema>;

const isSame = (one: DestinationReport, other: DestinationReport) =>
  one.name === other.name && one.stream === other.stream;

/** A destination that was skipped has not been tried. */
function untried(end: Pick<RunResult, 'destinations'>, standing: readonly OpenFailure[]): OpenFailure[] {
  const tried = end.destinations.filter(({ status }) => status !== 'skipped' && status !== 'not_tried');
  return standing.filter((each) => !tried.some((other) => isSame(each, other)));
}

/**
 * How a job stands after a run or a delivery that did not try all destinations: what failed to be delivered before is not well for
 * that. So a night of `run --no-push` and a `push` that fails is told as one failure, not by turns as well and failed.
 */
export function withOpenFailures(end: RunResult, standing: readonly OpenFailure[]): RunResult {
  const left = untried(end, standing);
  if (left.length === 0 || (end.status !== 'ok' && end.status !== 'held' && end.status !== 'partial')) return end;
  const others = end.destinations.filter((each) => !left.some((other) => isSame(each, other)));
  return { ...end, status: 'partial', destinations: [...others, ...left] };
}

/** The failed deliveries that stand after it. */
export function openFailuresAfter(end: RunResult, standing: readonly OpenFailure[]): OpenFailure[] {
  const failed = end.destinations.flatMap(({ status, ...facts }): OpenFailure[] =>
    status === 'failed' || status === 'partial' ? [{ ...facts, status }] : [],
  );
  return [...untried(end, standing), ...failed];
}

import type { Deprecation } from '../core/deprecation.js';
import { mayRetry, mendsItself } from '../core/failures.js';
import type { DestinationReport, JobReport, ReportedError, StreamReport } from '../core/run-report.js';

/** How a run ended, for people and programs outside: its report, or the error that kept it from having one. */
export interface RunResult {
  readonly job: string;
  /** Null if the run ended before it had an id. */
  readonly runId: string | null;
  readonly status: 'ok' | 'held' | 'partial' | 'failed' | 'interrupted';
  readonly sequence: number | null;
  readonly resumed: boolean;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
  readonly finishedAt: number;
  readonly streams: readonly StreamReport[];
  readonly destinations: readonly DestinationReport[];
  readonly deprecations?: readonly Deprecation[] | undefined;
  /** Those that concern no single stream. */
  readonly warnings?: JobReport['warnings'] | undefined;
  /** What ended the run before it had a report. */
  readonly error: ReportedError | null;
  /** Absolute path of the file of variables of the run. */
  readonly envFile?: string | undefined;
  /** Path of the report; null if there is none. */
  readonly report: string | null;
}

/** Whether the same command alone may mend what went wrong. */
export function mayRetryResult({ error, ...run }: RunResult): boolean {
  if (error !== null) return mendsItself(error);
  return mayRetry({ ...run, streams: [...run.streams], destinations: [...run.destinations] });
}

/** The end of a run that has a report. */
export function resultOfReport(
  report: JobReport,
  times: Pick<RunResult, 'startedAt' | 'finishedAt' | 'report'>,
): RunResult {
  const { job, run_id: runId, status, sequence, resumed, streams, destinations, deprecations, warnings } = report;
  // A run that meets another one has no report.
  const ended = status === 'locked' ? 'failed' : status;
  const about = { job, runId, status: ended, sequence, resumed, deprecations, warnings };
  return { ...about, streams, destinations, error: null, envFile: report.env_file, ...times };
}

/**
 * The error of a stream, as it may leave this machine: that of a held stream names keys of records, which a guard's figures do
 * without.
 */
export function errorWithoutKeys({ error, findings }: Pick<StreamReport, 'error' | 'findings'>): ReportedError | null {
  if (error === null || findings === undefined || findings.length === 0) return error;
  return { ...error, message: findings.map(({ guard, message }) => `${guard}: ${message}`).join('; ') };
}

/** Why a stream was skipped that a later command makes up for: it needs another one, or the run ended early. */
const waiting = new Set(['dependency', 'interrupted']);

/**
 * The status of a job after an action on its last run: an approval, or a delivery without a run. The parts not concerned are as the
 * run left it.
 */
export function mergedStatus(
  { status, streams, destinations }: Pick<JobReport, 'status' | 'streams' | 'destinations'>,
  last: Pick<JobReport, 'status' | 'streams' | 'destinations'> | undefined,
): RunResult['status'] {
  if (status === 'interrupted') return 'interrupted';
  const allStreams = new Map([...(last?.streams ?? []), ...streams].map((stream) => [stream.name, stream]));
  const done = destinations.filter(({ status }) => status !== 'skipped' && status !== 'not_tried');
  const deliveries = new Map(
    [...(last?.destinations ?? []), ...done].map(({ name, stream, status }) => [`${name} ${stream}`, status]),
  );
  // Skipped for another reason than one it waits for: a step before the run failed.
  const ends = [...allStreams.values()].map(({ status, error }) =>
    status === 'skipped' && !waiting.has(error?.code ?? 'dependency') ? 'failed' : status,
  );
  const statuses = [...ends, ...deliveries.values()];
  // Steps that the interruption prevented, and no later command has made up for.
  const isCut = statuses.some((status) => status === 'skipped' || status === 'not_tried');
  if (last?.status === 'interrupted' && isCut) return 'interrupted';
  // Committed, but not published.
  if (streams.some((stream) => stream.status === 'ok' && stream.error != null)) return 'partial';
  if (!statuses.includes('failed') && !statuses.includes('partial')) {
    if (statuses.includes('held')) return 'held';
    // After an approval: a stream that depends on the approved one, and is still of the snapshot before.
    return ends.includes('skipped') ? 'partial' : 'ok';
  }
  return statuses.includes('ok') || statuses.includes('partial') ? 'partial' : 'failed';
}

import type { CdsyncError } from '../core/errors.js';
import type { JobReport, ReportedError, RunStatus, StreamReport } from '../core/run.js';
import type { StreamCommit } from '../snapshot/commit.js';
import type { Counters } from '../store/journal.js';
import type { RunIdentity } from '../store/run-state.js';

/** What became of one stream. */
export interface StreamOutcome {
  readonly name: string;
  error: CdsyncError | undefined;
  counters: Counters | undefined;
  commit: StreamCommit | undefined;
  /** Extraction time. */
  seconds?: number;
}

export function reportError({ code, message, hint, requestId }: CdsyncError): ReportedError {
  return { code, message, hint: hint ?? null, request_id: requestId ?? null };
}

function reportStream({ name, error, counters, commit, seconds }: StreamOutcome): StreamReport {
  const committed = error === undefined ? commit : undefined;
  const difference = committed?.task.difference;
  return {
    name,
    status: error === undefined ? 'ok' : error.kind === 'interrupted' ? 'skipped' : 'failed',
    rows: committed?.task.rows ?? 0,
    inserted: difference?.inserted ?? 0,
    updated: difference?.updated ?? 0,
    deleted: difference?.deleted ?? 0,
    unchanged: difference?.unchanged ?? 0,
    duplicates: committed?.duplicates ?? 0,
    rejected: counters?.rejected ?? 0,
    missing: counters?.missing ?? 0,
    requests: counters?.requests ?? 0,
    retries: counters?.retries ?? 0,
    throttled: counters?.throttled ?? 0,
    pages: counters?.pages ?? 0,
    bytes: counters?.bytes ?? 0,
    seconds: seconds ?? (counters?.milliseconds ?? 0) / 1000,
    error: error === undefined ? null : reportError(error),
  };
}

export interface JobOutcome {
  readonly job: string;
  readonly run: RunIdentity;
  readonly resumed: boolean;
  readonly sequence: number | null;
  readonly status: RunStatus;
  readonly seconds: number;
  readonly streams: readonly StreamOutcome[];
}

/** The job's part of the `--json` document. */
export function reportJob({ job, run, resumed, sequence, status, seconds, streams }: JobOutcome): JobReport {
  return {
    job,
    run_id: run.runId,
    sequence,
    resumed,
    status,
    streams: streams.map(reportStream),
    destinations: [],
    seconds,
  };
}

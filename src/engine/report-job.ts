import type { CdsyncError } from '../core/errors.js';
import type { JobReport, ReportedError, RunReport, RunStatus, StreamReport, StreamStatus } from '../core/run.js';
import type { ReadingSplit } from '../extract/stream-extraction.js';
import type { StreamCommit } from '../snapshot/commit.js';
import { writeFileAtomically } from '../store/durable.js';
import type { Counters } from '../store/journal.js';
import type { RunIdentity } from '../store/run-state.js';
import type { RunContext } from './run-context.js';

/** A guard that failed, with the figures. */
export interface GuardFinding {
  /** Its key in the configuration; `empty_answer` if nothing came back. */
  readonly guard: string;
  readonly message: string;
  /** The message without the keys of rows; left out if it has none. */
  readonly figures?: string;
}

/** The outcome of one stream. */
export interface StreamOutcome {
  readonly name: string;
  error: CdsyncError | undefined;
  counters: Counters | undefined;
  commit: StreamCommit | undefined;
  /** Failed guards: they hold the stream. */
  findings: readonly GuardFinding[];
  /** Extraction time. */
  seconds?: number;
  /** How the list was read in parts. */
  split?: ReadingSplit | undefined;
  /** Why no record was recognised, in words. */
  unrecognised?: string | undefined;
  /** The rate limit that its requests count against. */
  limit?: StreamReport['limit'];
  /** Not read, because something before it failed; `error` says what. */
  skipped?: boolean;
  /** Its commit counts, and its report says so; but readers do not see it yet. */
  unpublished?: CdsyncError | undefined;
}

export function reportError({ code, message, hint, requestId }: CdsyncError): ReportedError {
  return { code, message, hint: hint ?? null, request_id: requestId ?? null };
}

/** The error of a held stream. The figures in its report are what its commit would do. */
function heldError(findings: readonly GuardFinding[], runId: string, stream: string): ReportedError | null {
  const [first] = findings;
  if (first === undefined) return null;
  const message = findings.map(({ guard, message: said }) => `${guard}: ${said}`).join('; ');
  const hint = `look at it: cdsync diff --held ${runId} ${stream}; then: cdsync approve ${runId}, or: cdsync discard ${runId}`;
  return {
    code: first.guard === 'empty_answer' ? first.guard : `guard_${first.guard}`,
    message,
    hint,
    request_id: null,
  };
}

function statusOf({ error, findings, skipped }: StreamOutcome): StreamStatus {
  if (error === undefined) return findings.length > 0 ? 'held' : 'ok';
  return skipped || error.kind === 'interrupted' ? 'skipped' : 'failed';
}

function reportStream(outcome: StreamOutcome, runId: string): StreamReport {
  const { name, error, counters, commit, seconds, findings, split } = outcome;
  const committed = error === undefined ? commit : undefined;
  const told = error ?? outcome.unpublished;
  const difference = committed?.task.difference;
  return {
    name,
    status: statusOf(outcome),
    rows: committed?.task.rows ?? 0,
    inserted: difference?.inserted ?? 0,
    updated: difference?.updated ?? 0,
    deleted: difference?.deleted ?? 0,
    unchanged: difference?.unchanged ?? 0,
    duplicates: committed?.duplicates ?? 0,
    rejected: (counters?.rejected ?? 0) + (commit?.discarded ?? 0),
    replaced: counters?.replaced ?? 0,
    missing: counters?.missing ?? 0,
    recognised: counters?.recognised ?? 0,
    unrecognised: outcome.unrecognised ?? null,
    requests: counters?.requests ?? 0,
    retries: counters?.retries ?? 0,
    throttled: counters?.throttled ?? 0,
    pages: counters?.pages ?? 0,
    bytes: counters?.bytes ?? 0,
    partitions: split === undefined ? null : { by: [...split.attributes], chains: split.chains, missed: split.missed },
    seconds: seconds ?? (counters?.milliseconds ?? 0) / 1000,
    limit: outcome.limit ?? null,
    findings:
      error === undefined
        ? findings.map(({ guard, message, figures }) => ({ guard, message: figures ?? message }))
        : [],
    error: told === undefined ? heldError(findings, runId, name) : reportError(told),
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

/** A job's entry in the `--json` document. */
export function reportJob({ job, run, resumed, sequence, status, seconds, streams }: JobOutcome): JobReport {
  return {
    job,
    run_id: run.runId,
    sequence,
    resumed,
    status,
    streams: streams.map((stream) => reportStream(stream, run.runId)),
    destinations: [],
    seconds,
  };
}

/** Keeps the report of a run as the document of `--json`. @returns it as it was kept: with hints whose commands can be pasted */
export async function keepReport(
  { layout, hinted = (hint) => hint }: Pick<RunContext, 'layout' | 'hinted'>,
  given: JobReport,
): Promise<JobReport> {
  const completed = <E extends { readonly error: ReportedError | null }>(each: E): E =>
    each.error === null || each.error.hint === null
      ? each
      : { ...each, error: { ...each.error, hint: hinted(each.error.hint, given.job) } };
  const report = { ...given, streams: given.streams.map(completed), destinations: given.destinations.map(completed) };
  const document: RunReport = { status: report.status, jobs: [report], error: null };
  await writeFileAtomically(layout.report(report.run_id), `${JSON.stringify(document, null, 1)}\n`);
  return report;
}

import { type Column, ColumnSet, columnPath, type StoredColumn } from '../columns/columns.js';
import type { Deprecation } from '../core/deprecation.js';
import { writeFileAtomically } from '../core/durable.js';
import type { CdsyncError } from '../core/errors.js';
import { mayRetry } from '../core/failures.js';
import type {
  DestinationReport,
  JobReport,
  Pass,
  ReportedError,
  ReportedWarning,
  RunReport,
  RunStatus,
  StreamReport,
  StreamStatus,
} from '../core/run-report.js';
import type { SchemaChange } from '../core/schema-change.js';
import type { ReadingSplit } from '../extract/partition.js';
import type { StreamCommit } from '../snapshot/commit.js';
import type { Counters } from '../storage/journal.js';
import type { JobLayout } from '../storage/layout.js';
import type { RunIdentity } from '../storage/run-state.js';
import type { RunContext } from './run-context.js';

function isFilled({ shape, declared }: Column): boolean {
  return shape.kinds !== 0 || declared !== undefined;
}

/** Another type of a column, unless a rule or another choice of `strings` made it. */
function changeOf(was: Column, current: Column): Pick<SchemaChange, 'change' | 'from'> | undefined {
  const isOtherRule = JSON.stringify(was.rule) !== JSON.stringify(current.rule);
  const isNowTyped = was.form === undefined && current.form !== undefined && was.type === 'VARCHAR';
  if (was.type === current.type || !isFilled(was) || isOtherRule || isNowTyped) return undefined;
  const fellBack = current.type === 'VARCHAR' && (was.form !== undefined || current.former !== undefined);
  return { change: fellBack ? 'type_fell_back' : 'type_widened', from: was.type };
}

/** How the columns of a snapshot differ from the previous ones. For a first snapshot: types of rules that its values do not fit. */
function schemaChanges(before: readonly StoredColumn[] | undefined, columns: readonly StoredColumn[]): SchemaChange[] {
  const previousColumns = ColumnSet.restore(before ?? []);
  return ColumnSet.restore(columns).list.flatMap((column): SchemaChange[] => {
    const { place, field, type: to, former } = column;
    const was = previousColumns.get(place, field);
    const path = columnPath(column);
    if (was === undefined) {
      if (before !== undefined) return [{ column: path, change: 'column_added', from: null, to }];
      return former === undefined ? [] : [{ column: path, change: 'type_fell_back', from: former, to }];
    }
    const change = changeOf(was, column);
    return change === undefined ? [] : [{ column: path, ...change, to }];
  });
}

/** A guard that failed, with the figures. */
export interface GuardFinding {
  /** Its key in the configuration; `empty_answer` if no record was returned; `column_unknown` if a rule that hides values matches no column. */
  readonly guard: string;
  readonly message: string;
  /** The message without the keys of rows; left out if it has none. */
  readonly figures?: string;
  /** The column or query that it is about; empty if there is no other of this guard. */
  readonly of?: string;
  /** How much of the limit's kind there is, for a guard that looks at rows alone: more is worse. */
  readonly measure?: number;
}

/** The outcome of one stream. */
export interface StreamOutcome {
  readonly name: string;
  error: CdsyncError | undefined;
  counters: Counters | undefined;
  /** The part of these counters that earlier processes counted. */
  earlier?: Counters | undefined;
  commit: StreamCommit | undefined;
  /** Failed guards: they hold the stream. */
  findings: readonly GuardFinding[];
  /** Failed guards that only warn. */
  remarks?: readonly GuardFinding[];
  warnings?: readonly ReportedWarning[];
  /** Names under `columns:` that no column has. */
  unmatchedRules?: readonly string[];
  /** Columns that the stream does not select. */
  unselected?: readonly string[];
  /** Passes over the list besides the first. */
  passes?: readonly Pass[];
  /** How the list was read in parts. */
  split?: ReadingSplit | undefined;
  /** Why the record cache was not used, in words. */
  cacheUnusedBecause?: string | undefined;
  /** The rate limit that its requests count against. */
  limit?: StreamReport['limit'];
  /** Not read, because an earlier step failed: see `error`. */
  skipped?: boolean;
  /** Why a commit is not published yet. The commit counts. */
  unpublished?: CdsyncError | undefined;
}

export function reportError({ code, message, hint, requestId }: CdsyncError): ReportedError {
  return { code, message, hint: hint ?? null, request_id: requestId ?? null };
}

/** The error of something that a command has tried, and whether a login or a right was refused. */
export function errorWithAuth(error: CdsyncError): ReportedError & { auth: boolean } {
  return { ...reportError(error), auth: error.kind === 'auth' };
}

/** Guards without an option under `guards:`. */
const ownCodes = new Set(['empty_answer', 'column_unknown', 'changes_gone']);

function findingCode({ guard }: GuardFinding): string {
  return ownCodes.has(guard) ? guard : `guard_${guard}`;
}

/** The error of a held stream. The figures in its report are those of the commit that waits. */
function heldError(findings: readonly GuardFinding[], runId: string, stream: string): ReportedError | null {
  const [first] = findings;
  if (first === undefined) return null;
  const message = findings.map(({ guard, message: said }) => `${guard}: ${said}`).join('; ');
  const isUnknown = findings.every(({ guard }) => guard === 'column_unknown');
  const isGone = findings.every(({ guard }) => guard === 'changes_gone');
  const hint = isGone
    ? `\`publish.history\` says how long rows are kept; to continue from the oldest: cdsync approve ${runId}, or: cdsync run --stream ${stream} --accept`
    : isUnknown
      ? `correct the name under \`columns:\`, then: cdsync run; if the column will follow later: cdsync approve ${runId}`
      : `look at it: cdsync diff --held ${runId} ${stream}; then: cdsync approve ${runId}, or: cdsync discard ${runId}`;
  return { code: findingCode(first), message, hint, request_id: null };
}

function statusOf({ error, findings, skipped }: StreamOutcome): StreamStatus {
  if (error === undefined) return findings.length > 0 ? 'held' : 'ok';
  return skipped || error.kind === 'interrupted' ? 'skipped' : 'failed';
}

/** The counters of this process alone, if the stream was resumed. */
function ownPart({ counters, earlier, commit }: StreamOutcome): Pick<StreamReport, 'process'> {
  if (counters === undefined || earlier === undefined) return {};
  const since = (name: keyof Counters) => Math.max(0, counters[name] - earlier[name]);
  return {
    process: {
      requests: since('requests'),
      retries: since('retries'),
      throttled: since('throttled'),
      pages: since('pages'),
      bytes: since('bytes'),
      seconds: since('milliseconds') / 1000,
      rejected: since('rejected') + (commit?.discarded ?? 0),
      missing: since('missing'),
    },
  };
}

/** A stream's entry in the `--json` document. */
export function reportStream(outcome: StreamOutcome, runId: string): StreamReport {
  const { name, error, counters, commit, passes = [], findings, remarks = [], split } = outcome;
  const committed = error === undefined ? commit : undefined;
  const failure = error ?? outcome.unpublished;
  const difference = committed?.task.difference;
  return {
    name,
    status: statusOf(outcome),
    rows: committed?.task.rows ?? 0,
    inserted: difference?.inserted ?? 0,
    updated: difference?.updated ?? 0,
    deleted: difference?.deleted ?? 0,
    unchanged: difference?.unchanged ?? 0,
    duplicates: commit?.duplicates ?? 0,
    rejected: (counters?.rejected ?? 0) + (commit?.discarded ?? 0),
    replaced: counters?.replaced ?? 0,
    discarded_values: commit?.discardedValues ?? 0,
    forgotten_returned: commit?.forgotten ?? 0,
    schema_changes: commit === undefined ? [] : schemaChanges(commit.task.previous?.columns, commit.task.columns),
    missing: counters?.missing ?? 0,
    // A record of two passes is one.
    recognised: commit?.task.difference.cached ?? counters?.cached ?? 0,
    unrecognised: outcome.cacheUnusedBecause ?? null,
    requests: counters?.requests ?? 0,
    retries: counters?.retries ?? 0,
    throttled: counters?.throttled ?? 0,
    pages: counters?.pages ?? 0,
    bytes: counters?.bytes ?? 0,
    partitions: split === undefined ? null : { by: [...split.attributes], chains: split.chains, missed: split.missed },
    ...(passes.length === 0 ? {} : { passes: [...passes] }),
    seconds: (counters?.milliseconds ?? 0) / 1000,
    ...ownPart(outcome),
    limit: outcome.limit ?? null,
    findings:
      error === undefined
        ? [...findings, ...remarks].map(({ guard, message, figures }) => ({ guard, message: figures ?? message }))
        : [],
    warnings: [
      ...remarks.map((finding) => ({ code: findingCode(finding), message: finding.figures ?? finding.message })),
      ...(outcome.warnings ?? []).map(({ code, message }) => ({ code, message })),
    ],
    unmatched_rules: [...(outcome.unmatchedRules ?? [])],
    ...(outcome.unselected === undefined ? {} : { not_selected: [...outcome.unselected] }),
    error: failure === undefined ? heldError(findings, runId, name) : reportError(failure),
  };
}

interface JobOutcome {
  readonly job: string;
  readonly run: RunIdentity;
  readonly resumed: boolean;
  readonly sequence: number | null;
  readonly status: RunStatus;
  readonly seconds: number;
  readonly streams: readonly StreamOutcome[];
  readonly deprecations?: readonly Deprecation[];
  /** Why the clock of this machine cannot be trusted. */
  readonly clockProblem?: string | undefined;
  /** Streams of the store that the configuration no longer has. */
  readonly unconfigured?: readonly string[];
}

function jobWarnings({ job, clockProblem, unconfigured = [] }: JobOutcome): ReportedWarning[] {
  const clock = clockProblem === undefined ? [] : [{ code: 'clock_off', message: clockProblem }];
  const streams = unconfigured.map((name) => ({
    code: 'stream_unconfigured',
    message: `stream "${name}" is still stored and published, but job "${job}" no longer has it: cdsync state remove --stream ${name} takes it out`,
  }));
  return [...clock, ...streams];
}

/** A job's entry in the `--json` document. */
export function reportJob(outcome: JobOutcome): JobReport {
  const { job, run, resumed, sequence, status, seconds, streams, deprecations = [] } = outcome;
  return {
    job,
    run_id: run.runId,
    sequence,
    resumed,
    status,
    streams: streams.map((stream) => reportStream(stream, run.runId)),
    destinations: [],
    deprecations: [...deprecations],
    warnings: jobWarnings(outcome),
    seconds,
  };
}

/** A run's report with its deliveries; the columns that they added are among the schema changes of the streams. */
export function withDestinations(report: JobReport, destinations: readonly DestinationReport[]): JobReport {
  const changesOf = (name: string) =>
    destinations.flatMap(({ stream, schema_changes: changes = [] }) => (stream === name ? changes : []));
  return {
    ...report,
    streams: report.streams.map((stream) => ({
      ...stream,
      schema_changes: [...stream.schema_changes, ...changesOf(stream.name)],
    })),
    destinations: destinations.map(({ schema_changes: _, ...rest }) => rest),
  };
}

/** A report that also names the objects that the bucket of the job should no longer have. */
export function withRemovalOwed(report: JobReport, { remoteFiles }: JobLayout): JobReport {
  const error = remoteFiles?.removalOwed?.error;
  if (error === undefined) return report;
  const { code, message, hint } = error;
  const warnings = [
    ...(report.warnings ?? []),
    { code, message: hint === undefined ? message : `${message}; ${hint}` },
  ];
  return { ...report, status: report.status === 'ok' ? 'partial' : report.status, warnings };
}

/** Writes the report of a run as the document of `--json`. @returns the written report: the commands in its hints can be pasted */
export async function keepReport(
  { layout, config, hinted = (hint) => hint }: Pick<RunContext, 'layout' | 'hinted' | 'config'>,
  outcome: JobReport,
): Promise<JobReport> {
  const completed = <E extends { readonly error: ReportedError | null }>(entry: E): E =>
    entry.error === null || entry.error.hint === null
      ? entry
      : { ...entry, error: { ...entry.error, hint: hinted(entry.error.hint, outcome.job) } };
  const report = {
    ...outcome,
    ...(config.envFile === undefined ? {} : { env_file: config.envFile }),
    streams: outcome.streams.map(completed),
    destinations: outcome.destinations.map(completed),
  };
  const document: RunReport = { status: report.status, retry: mayRetry(report), jobs: [report], error: null };
  await writeFileAtomically(layout.report(report.run_id), `${JSON.stringify(document, null, 1)}\n`);
  return report;
}

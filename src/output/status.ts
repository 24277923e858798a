import { type Deprecation, deprecationLine } from '../core/deprecation.js';
import { asCdsyncError } from '../core/errors.js';
import { type Failure, failuresOf } from '../core/failures.js';
import { formatAge, formatCount, formatCounted, formatDuration, formatNames } from '../core/quantities.js';
import type { JobReport } from '../core/run-report.js';
import { destinationStatuses, type Unconfigured, unconfiguredIn } from '../delivery/destination-status.js';
import { erasureLog } from '../delivery/erasure-log.js';
import { type DestinationStatus, lagWords } from '../delivery/lag-words.js';
import type { LimitShare } from '../rate-limit/budget.js';
import { readManifest } from '../snapshot/manifest.js';
import { damagedHeld, heldStreams, heldUnreadable, readHeld } from '../storage/held.js';
import { isOwnerAlive, lockOwner } from '../storage/job-lock.js';
import { Journal } from '../storage/journal.js';
import type { JobLayout } from '../storage/layout.js';
import { removalOwedSince } from '../storage/removal-owed.js';
import { damagedReports, readReport, recentReports, reportedRuns, runStartedAt } from '../storage/reports.js';
import { runFolders, storageWriter } from '../storage/storage.js';
import { shareLine } from './progress-lines.js';
import { table } from './table.js';

/** The snapshot of a stream, and the progress of an unfinished run. */
interface StreamStatus {
  name: string;
  snapshot: { run_id: string; sequence: number; rows: number } | null;
  checkpoint: {
    run_id: string;
    rows: number;
    pages: number;
    partitions: number;
    partitions_done: number;
    failed: string | null;
  } | null;
  /** The cache hits of the last run, or why it converted every record; null without a report. */
  recognition: { recognised: number; unrecognised: string | null } | null;
  /** The run that a guard holds, why, and what its commit would do. */
  held: {
    run_id: string;
    findings: { guard: string; message: string }[];
    inserted: number;
    updated: number;
    deleted: number;
  } | null;
}

export interface JobStatus {
  job: string;
  /** The version of the cdsync that last wrote to the storage folder; null before the first run, or if it does not say. */
  written_by: string | null;
  /** The run that has the lock now. */
  running: { run_id: string | null; pid: number; host: string; started_at: string } | null;
  /** The running process's part of the Profile API's limit; null if it has not asked for anything, or that is not known. */
  budget: { part: number; other_processes: number } | null;
  runs: { run_id: string; status: string; sequence: number | null; seconds: number }[];
  streams: StreamStatus[];
  destinations: DestinationStatus[];
  /** Why streams failed in the last run, and why deliveries failed to destinations that are still behind. */
  failures: { streams: string[]; destination: string | null; code: string; message: string }[];
  /** 1 if the job's bucket still has objects with values that were erased or hidden, and since when: ISO 8601. */
  erasures_pending: number;
  erasures_since: string | null;
  /** Streams and destinations that are still stored or delivered, but no longer configured. */
  unconfigured: Unconfigured;
  /** API versions whose end the service announced during the last run. */
  deprecations: Deprecation[];
}

type ErasuresOwed = Pick<JobStatus, 'erasures_pending' | 'erasures_since'>;

async function checkpoint(layout: JobLayout, stream: string): Promise<StreamStatus['checkpoint']> {
  for (const runId of (await runFolders(layout)).reverse()) {
    const journal = await Journal.read(layout.streamRun(runId, stream)).catch(() => undefined);
    if (journal === undefined || (await readHeld(layout, runId, stream)) !== undefined) continue;
    const cursors = [...journal.cursors.values()];
    return {
      run_id: runId,
      rows: journal.counters.kept,
      pages: journal.counters.pages,
      partitions: journal.start.partitions.length,
      partitions_done: cursors.filter(({ done }) => done).length,
      failed: journal.failed ?? null,
    };
  }
  return null;
}

/** What failed in the last run and has not succeeded since; held results are shown in other lines. */
function lastingFailures(
  failures: readonly Failure[],
  destinations: readonly DestinationStatus[],
): JobStatus['failures'] {
  const isBehind = (destination: string, stream: string) =>
    destinations.some((status) => status.name === destination && status.stream === stream && status.behind > 0);
  return failures.flatMap(({ streams, destination, isHeld, error: { code, message } }) => {
    const failed = destination === undefined ? [...streams] : streams.filter((stream) => isBehind(destination, stream));
    return isHeld || failed.length === 0 ? [] : [{ streams: failed, destination: destination ?? null, code, message }];
  });
}

/** Reports that the status reads, from the newest. */
const shownReports = 5;

/** Findings of guards for a status. @param namesKeys whether they may name keys of records */
export function findingsShown(
  findings: readonly { readonly guard: string; readonly message: string; readonly figures?: string | undefined }[],
  namesKeys: boolean,
): { guard: string; message: string }[] {
  return findings.map(({ guard, message, figures }) => ({
    guard,
    message: namesKeys ? message : (figures ?? message),
  }));
}

/** Reads reports, journals and manifests, never the store, so that it also works during a run. */
export async function jobStatus(
  layout: JobLayout,
  streams: readonly string[],
  destinations: readonly { readonly name: string; readonly streams: readonly string[] }[],
  {
    shareOf = async () => undefined,
    namesKeys = true,
  }: {
    readonly shareOf?: (pid: number) => Promise<LimitShare | undefined>;
    /** Whether findings of guards name keys of records, which are personal data. */
    readonly namesKeys?: boolean;
  } = {},
): Promise<JobStatus> {
  const owner = await lockOwner(layout);
  const running = owner !== undefined && (await isOwnerAlive(owner)) ? owner : undefined;
  const share = running && (await shareOf(running.pid));
  const reports = await recentReports(layout, shownReports);
  const jobs = reports.flatMap((report) => report.jobs);
  const damaged = await damagedReports(layout, (await reportedRuns(layout)).slice(0, shownReports));
  const erasures = await erasuresOwed(layout).catch((error: unknown) => {
    damaged.push(asCdsyncError(error));
    return erasuresSince(layout, []);
  });
  const delivered = await destinationStatuses(layout, destinations);
  return {
    job: layout.job,
    written_by: (await storageWriter(layout)) ?? null,
    running: running
      ? { run_id: running.run_id ?? null, pid: running.pid, host: running.host, started_at: running.started_at }
      : null,
    budget: share === undefined ? null : { part: share.part, other_processes: share.otherProcesses },
    runs: jobs.map(({ run_id, status, sequence, seconds }) => ({ run_id, status, sequence, seconds })),
    streams: await Promise.all(streams.map((stream) => streamStatus(layout, stream, jobs, namesKeys))),
    destinations: delivered,
    failures: [
      ...damaged.map(({ code, message }) => ({ streams: [...streams], destination: null, code, message })),
      ...(jobs[0] === undefined ? [] : lastingFailures(failuresOf(jobs[0]), delivered)),
      ...(await damagedHeld(layout, streams)).map((held) => {
        const { code, message, hint } = heldUnreadable(held);
        return { streams: [held.stream], destination: null, code, message: `${message}: ${hint}` };
      }),
    ],
    ...erasures,
    unconfigured: await unconfiguredIn(layout, streams, destinations),
    deprecations: jobs[0]?.deprecations ?? [],
  };
}

async function streamStatus(
  layout: JobLayout,
  name: string,
  jobs: readonly JobReport[],
  namesKeys: boolean,
): Promise<StreamStatus> {
  const manifest = await readManifest(layout.manifest(name));
  const snapshot = manifest ? { run_id: manifest.run_id, sequence: manifest.sequence, rows: manifest.rows } : null;
  const last = jobs.flatMap(({ streams }) => streams).find((stream) => stream.name === name);
  return {
    name,
    snapshot,
    checkpoint: await checkpoint(layout, name),
    recognition:
      last?.recognised === undefined ? null : { recognised: last.recognised, unrecognised: last.unrecognised },
    held: await heldStatus(layout, name, snapshot?.run_id, namesKeys),
  };
}

async function heldStatus(
  layout: JobLayout,
  name: string,
  runOfSnapshot: string | undefined,
  namesKeys: boolean,
): Promise<StreamStatus['held']> {
  // That of a snapshot was approved, by a process that ended before it removed the note.
  const held = (await heldStreams(layout, [name])).findLast(({ run_id }) => run_id !== runOfSnapshot);
  if (held === undefined) return null;
  const report = await readReport(layout, held.run_id);
  const reported = report?.jobs[0]?.streams.find((stream) => stream.name === name);
  const { inserted = 0, updated = 0, deleted = 0 } = reported ?? {};
  return { run_id: held.run_id, findings: findingsShown(held.findings, namesKeys), inserted, updated, deleted };
}

/** @throws {CdsyncError} as {@link erasureLog} */
async function erasuresOwed(layout: JobLayout): Promise<ErasuresOwed> {
  const erasures = (await erasureLog(layout))?.erasures ?? [];
  return erasuresSince(
    layout,
    erasures.flatMap(({ at, storage }) => (storage.done_at === null ? [at] : [])),
  );
}

/** @param cutShort when erasures began that the storage folder has not done */
async function erasuresSince(layout: JobLayout, cutShort: readonly string[]): Promise<ErasuresOwed> {
  const since = [await removalOwedSince(layout), ...cutShort].filter((at) => at !== undefined).sort();
  return { erasures_pending: Math.max(cutShort.length, since.length === 0 ? 0 : 1), erasures_since: since[0] ?? null };
}

function streamCells({ name, snapshot, checkpoint: left }: StreamStatus): string[] {
  const partitions =
    left === null || left.partitions === 1 ? '' : `, ${left.partitions_done} of ${left.partitions} partitions`;
  return [
    name,
    snapshot === null ? '-' : formatCount(snapshot.rows),
    snapshot === null ? '-' : String(snapshot.sequence),
    left === null
      ? '-'
      : `${formatCounted(left.rows, 'row')}${partitions}${left.failed === null ? '' : ` (failed: ${left.failed})`}`,
  ];
}

/** The most streams that a line names. */
const maxNamed = 10;

function destinationLines(
  destinations: readonly DestinationStatus[],
  nowMs: number,
  lineWidth: number | undefined,
): string[] {
  if (destinations.length === 0) return [];
  const cells = destinations.map((destination) => [
    destination.name,
    destination.stream,
    destination.sequence === null ? '-' : String(destination.sequence),
    destination.delivered_at === null ? '-' : formatAge(nowMs - Date.parse(destination.delivered_at)),
    lagWords(destination, nowMs),
  ]);
  const reasons = new Map<string, string[]>();
  for (const { name, stream, last_action: action, last_why: why } of destinations) {
    if (action === null || !why) continue;
    const reason = `${name}: last load: ${action}, because ${why}`;
    reasons.set(reason, [...(reasons.get(reason) ?? []), stream]);
  }
  const lines = table(['destination', 'stream', 'snapshot', 'delivered', ''], cells, lineWidth).map(
    (line) => `  ${line}`,
  );
  return [...lines, ...[...reasons].map(([reason, of]) => `  ${reason} (${formatNames(of, maxNamed)})`), ''];
}

function recognitionLines({ name, recognition }: StreamStatus): string[] {
  if (recognition === null) return [];
  const { recognised: cached, unrecognised: reason } = recognition;
  if (cached > 0) return [`  ${name}: the last run skipped ${formatCounted(cached, 'unchanged record')}`];
  return reason === null ? [] : [`  ${name}: the last run processed all records: ${reason}`];
}

function heldLines({ name, held }: StreamStatus): string[] {
  if (held === null) return [];
  const why = held.findings.map(({ guard, message }) => `    ${guard}: ${message}`);
  const { run_id: run, inserted, updated, deleted } = held;
  const counts = `${formatCount(inserted)} inserted, ${formatCount(updated)} updated, ${formatCount(deleted)} deleted`;
  return [
    `  ${name} is held, of run ${run}: ${counts}`,
    ...why,
    `    look at it: cdsync diff --held ${run} ${name}`,
    `    approve: cdsync approve ${run}`,
    `    discard: cdsync discard ${run}`,
    '',
  ];
}

function failureLines({ failures }: JobStatus): string[] {
  const lines = failures.map(({ streams, destination, code, message }) => {
    const place = `${destination === null ? '' : `${destination}: `}${formatNames(streams, maxNamed)}`;
    const [first = '', ...more] = message.split('\n');
    return [`  ${place}: failed in the last run: ${first} [${code}]`, ...more.map((line) => `  ${line}`)];
  });
  return lines.length === 0 ? [] : [...lines.flat(), ''];
}

function unconfiguredLines({ streams, destinations }: Unconfigured): string[] {
  return [
    ...streams.map(
      (name) => `  stream ${name} is stored, but no longer configured: cdsync state remove --stream ${name}`,
    ),
    ...destinations.map(
      (name) =>
        `  destination ${name} may have rows, but is no longer configured: cdsync state remove --destination ${name}`,
    ),
  ];
}

/** The status for people; `nowMs` in milliseconds since the Unix epoch. @param width of the terminal; undefined without one */
export function statusLines(status: JobStatus, nowMs: number, width?: number): string[] {
  const lineWidth = width && width - 2;
  const { job, running, budget, runs, streams, destinations, deprecations } = status;
  const age = (runId: string) => formatAge(nowMs - runStartedAt(runId));
  return [
    running === null
      ? `job ${job}: no run under way`
      : `job ${job}: run ${running.run_id ?? '(starting)'} under way, process ${running.pid} on ${running.host}`,
    ...(status.written_by === null ? [] : [`  storage written by cdsync ${status.written_by}`]),
    ...(budget === null ? [] : [`  ${shareLine({ part: budget.part, otherProcesses: budget.other_processes })}`]),
    '',
    ...table(['stream', 'rows', 'snapshot', 'checkpoint'], streams.map(streamCells), lineWidth).map(
      (line) => `  ${line}`,
    ),
    '',
    ...streams.flatMap(recognitionLines),
    ...streams.flatMap(heldLines),
    ...destinationLines(destinations, nowMs, lineWidth),
    ...failureLines(status),
    ...(status.erasures_since === null
      ? []
      : [
          `  the storage may have values that were erased or hidden since ${status.erasures_since.slice(0, 10)}: cdsync run; cdsync forget --status says which`,
        ]),
    ...unconfiguredLines(status.unconfigured),
    ...deprecations.map((deprecation) => `  ${deprecationLine(deprecation)}`),
    ...(runs.length === 0 ? ['  no run has ended yet'] : []),
    ...runs.map(
      ({ run_id, status, seconds }) =>
        `  ${run_id}  ${status}  ${formatDuration(seconds * 1000)}, begun ${age(run_id)}`,
    ),
  ];
}

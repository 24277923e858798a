import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import type { JobConfig, StreamConfig } from '../config/config.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { mendsItself } from '../core/failures.js';
import { formatCounted } from '../core/quantities.js';
import type { RunReport, RunStatus } from '../core/run-report.js';
import { nameHint } from '../core/suggestions.js';
import { JobLayout } from '../storage/layout.js';
import { recentReports } from '../storage/reports.js';
import type { JobsArguments } from './arguments.js';
import type { Interruption } from './interruption.js';
import { asksForSeveral, inJob } from './load.js';
import { type Ending, exitCodeOf, failureDocument, type Output, usageError } from './output.js';

/** How the work on one job ended: its exit code, and the reasons for the next step. */
export interface CommandResult extends Omit<Ending, 'storage' | 'job'> {
  /** Whether something was committed or delivered. */
  readonly hasDone?: boolean;
  /** Whether the same command alone may mend it. */
  readonly retry?: boolean;
}

/** The work of a command on each of its jobs. `Result` is the job's entry in the document of --json. */
export interface JobCommand<Result> {
  /**
   * @param only the streams and destinations that the command line names, as far as the job has them
   * @throws {CdsyncError} if it could not begin, or is stopped
   */
  work(job: JobConfig, only: Pick<JobSelection, 'streams' | 'destinations'>): Promise<Result>;
  /**
   * Shows people the result, and derives the exit code.
   * @param isAlone whether the command has no other job: then its last line says what to do next about this one
   */
  print(result: Result, isAlone: boolean): CommandResult | Promise<CommandResult>;
  /** The document of --json for one job alone. */
  document(result: Result): unknown;
}

/** The jobs of a command line, and where their snapshots are. */
interface JobsTask {
  /** Its name. */
  readonly command: string;
  readonly args: JobsArguments;
  readonly output: Output;
  readonly storage: string;
  readonly jobs: readonly JobConfig[];
  /** What of them the command line names; left out: everything. Of several jobs, those without any of it are left out. */
  readonly only?: JobSelection | undefined;
  /** Once the user has asked to stop, no further job is begun. Released at the end, after the result was shown. */
  readonly stop?: Interruption | undefined;
}

/** The end of one of several jobs: with a result, or with the error that kept it from one. */
export interface JobResult extends CommandResult {
  readonly job: string;
  readonly result?: unknown;
  readonly error?: CdsyncError;
}

const failures = [5, 1, 4, 2];

/** One exit code for several jobs: of the contract's order, over all of them. */
export function exitCodeOfJobs(ends: readonly Pick<JobResult, 'code' | 'hasDone'>[]): number {
  const codes = ends.map(({ code }) => code);
  // Nothing was begun.
  if (codes.every((code) => code === 2)) return 2;
  if (codes.includes(130)) return 130;
  const failed = codes.filter((code) => failures.includes(code));
  if (failed.length > 0) {
    if (failed.includes(5) || ends.some(({ hasDone }) => hasDone)) return 5;
    return failed.every((code) => code === 4) ? 4 : 1;
  }
  return [3, 75].find((code) => codes.includes(code)) ?? 0;
}

function statusOf(code: number): RunStatus {
  const statuses: Readonly<Record<number, RunStatus>> = {
    0: 'ok',
    3: 'held',
    5: 'partial',
    75: 'locked',
    130: 'interrupted',
  };
  return statuses[code] ?? 'failed';
}

/** An entry for a job without a report, with the members of one. */
function withoutReport({ job, code, error }: JobResult) {
  const reported = error === undefined ? null : failureDocument(error).error;
  const status = statusOf(code);
  const none = { run_id: null, sequence: null, resumed: false, streams: [], destinations: [], seconds: 0 } as const;
  return { job, ...none, status, error: reported };
}

/** Whether the same command alone may mend the end of a job. */
function mayMend({ code, error, retry }: JobResult): boolean {
  return retry ?? (error === undefined ? code === 75 || code === 130 : mendsItself(error));
}

/** Each job has its entry, also one that did not begin. With exits 2 and 75 there is `error` instead (contract). */
export function documentOfJobs(
  ends: readonly JobResult[],
): Omit<RunReport, 'jobs'> & { readonly jobs: readonly unknown[] } {
  const code = exitCodeOfJobs(ends);
  const stopped = code === 2 || code === 75 ? ends.find((end) => end.code === code)?.error : undefined;
  if (stopped !== undefined) return { ...failureDocument(stopped), status: statusOf(code) };
  const failed = ends.filter((end) => end.code !== 0);
  const retry = failed.length > 0 && failed.every(mayMend);
  return { status: statusOf(code), retry, jobs: ends.map((end) => end.result ?? withoutReport(end)), error: null };
}

/** `4 jobs: 1 ok, 1 failed (b), 2 interrupted (c, d)`. */
export function jobsLine(ends: readonly JobResult[]): string {
  const parts = (['ok', 'partial', 'failed', 'held', 'locked', 'interrupted'] as const).flatMap((status) => {
    const names = ends.filter(({ code }) => statusOf(code) === status).map(({ job }) => job);
    return names.length === 0 ? [] : [`${names.length} ${status}${status === 'ok' ? '' : ` (${names.join(', ')})`}`];
  });
  return `${formatCounted(ends.length, 'job')}: ${parts.join(', ')}`;
}

const notBegun = 'not_begun';

/** The code of the error that decides what to do next. */
function codeOf({ error, errorCode }: JobResult): string | undefined {
  return error?.code ?? errorCode;
}

/** The ends that the last line is about: those that need the same next command as the worst one. */
export function worstEnds(ends: readonly JobResult[]): readonly JobResult[] {
  const failed = ends.filter(({ code }) => code !== 0);
  const forPerson = failed.filter((end) => !mayMend(end));
  const isStopped = failed.some(({ code }) => code === 130);
  const of = forPerson.length > 0 && !isStopped ? forPerson : failed;
  const worst = [130, 5, 1, 4, 3, 75, 2].find((code) => of.some((end) => end.code === code));
  const [first, ...others] = of.filter(({ code }) => code === worst);
  if (first === undefined) return [];
  // A run is approved alone.
  const alike = others.filter(
    (end) =>
      worst !== 3 &&
      !first.isHeld &&
      (end.undelivered ?? false) === (first.undelivered ?? false) &&
      end.remedy === first.remedy &&
      (worst === 130 || codeOf(end) === codeOf(first)),
  );
  return [first, ...alike];
}

/** Commands that need the variables of the service themselves. Of the others, hints name the env file of the last run. */
const withVariables = new Set(['run', 'push', 'plan', 'check']);

/** From now on, commands in hints have the env file with which the last run of the job was started. */
async function nameEnvFile({ command, args, output, storage }: JobsTask, job: string): Promise<void> {
  if (args.envFile !== undefined || withVariables.has(command)) return;
  const [last] = await recentReports(new JobLayout(storage, job), 1);
  const path = last?.jobs[0]?.env_file;
  const near = path !== undefined && existsSync(path) ? relative('.', path) : undefined;
  output.at({ envFile: near?.startsWith('..') ? path : near });
}

async function workOnOne<R>(task: JobsTask, job: JobConfig, command: JobCommand<R>): Promise<number> {
  const { output, storage, only = {} } = task;
  const at = { storage, job: job.name };
  return inJob(at, async () => {
    await nameEnvFile(task, job.name);
    const result = await command.work(job, only);
    output.document(command.document(result));
    const verdict = await command.print(result, true);
    if (verdict.code !== 0) output.last(await nextStep({ ...verdict, ...at, command: task.command }));
    return verdict.code;
  });
}

async function endOf<R>(task: JobsTask, { job, ...only }: SelectedJob, command: JobCommand<R>): Promise<JobResult> {
  const { output, stop } = task;
  const { name } = job;
  if (stop?.signal.aborted) {
    const error = new CdsyncError('not begun, because the command was interrupted', {
      code: notBegun,
    });
    return { job: name, code: 130, error };
  }
  output.about({ job: name });
  try {
    await nameEnvFile(task, name);
    const result = await command.work(job, only);
    return { job: name, result, ...(await command.print(result, false)) };
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    const code = exitCodeOf(error);
    output.result(`job ${name}: ${statusOf(code)}`);
    output.error(error, { job: name });
    return { job: name, code, error };
  }
}

/**
 * Does a command's work on its jobs, one after the other: a job that fails stops no other one, and once the user has asked to
 * stop no further one begins. Writes the document, and the last line if something failed.
 * @returns the exit code
 * @throws {CdsyncError} `stream_not_found`, `destination_not_found`, `usage` if several jobs have nothing of it
 */
export async function forEachJob<R>(task: JobsTask, command: JobCommand<R>): Promise<number> {
  try {
    const [job] = task.jobs;
    return await (job !== undefined && !asksForSeveral(task.args)
      ? workOnOne(task, job, command)
      : workOnSeveral(task, command));
  } finally {
    // Not before the end: a signal would end the process without a report.
    task.stop?.release();
  }
}

async function workOnSeveral<R>(task: JobsTask, command: JobCommand<R>): Promise<number> {
  const { args, output, jobs, only, storage } = task;
  const ends: JobResult[] = [];
  for (const job of only === undefined ? jobs.map((job) => ({ job })) : selectJobs(jobs, only)) {
    ends.push(await endOf(task, job, command));
    output.result('');
  }
  output.about({ job: undefined });
  output.document(documentOfJobs(ends));
  output.result(jobsLine(ends));
  const code = exitCodeOfJobs(ends);
  if (code === 0) return code;
  const unbegun = ends.filter(({ error }) => error?.code === notBegun).map(({ job }) => job);
  if (unbegun.length > 0) output.notice(`not begun: ${unbegun.join(', ')}`);
  const worst = worstEnds(ends);
  const [first] = worst as [JobResult, ...JobResult[]];
  const isAll = args.all && worst.length === ends.length;
  output.at({ jobs: isAll ? 'all' : worst.map(({ job }) => job) });
  output.last(
    await nextStep({ ...first, errorCode: codeOf(first), command: task.command, storage, isOneOfSeveral: true }),
  );
  return code;
}

/** The names to which a command line limits its work; undefined for everything. */
interface JobSelection {
  readonly streams?: readonly string[] | undefined;
  readonly destinations?: readonly string[] | undefined;
  /** Only jobs with a stream that is read by time. */
  readonly byTime?: boolean | undefined;
  /** Only jobs with a destination. */
  readonly delivering?: boolean | undefined;
}

/** A job, and the streams and destinations of it that a command works on; undefined for all. */
interface SelectedJob extends Pick<JobSelection, 'streams' | 'destinations'> {
  readonly job: JobConfig;
}

const isByTime = ({ reads }: StreamConfig) => reads.windows !== undefined;

/** @throws {CdsyncError} if no job has one of the names */
function assertKnown(what: 'stream' | 'destination', named: readonly string[], knownNames: readonly string[]): void {
  const unknown = named.find((name) => !knownNames.includes(name));
  if (unknown === undefined) return;
  throw new CdsyncError(`none of these jobs has a ${what} "${unknown}"`, {
    code: `${what}_not_found`,
    hint: nameHint(`their ${what}s`, unknown, [...new Set(knownNames)]),
  });
}

function selectedPart(
  job: JobConfig,
  { streams, destinations, byTime, delivering }: JobSelection,
): SelectedJob | undefined {
  const named = job.streams.map(({ name }) => name).filter((name) => streams?.includes(name) ?? true);
  const targets = job.destinations.filter(
    ({ name, streams: itsStreams }) =>
      (destinations?.includes(name) ?? true) && (!delivering || itsStreams.some((stream) => named.includes(stream))),
  );
  const delivered = new Set(targets.flatMap((target) => target.streams));
  const chosen = job.streams.filter(({ name }) => named.includes(name) && (!delivering || delivered.has(name)));
  if (chosen.length === 0 || (byTime && !chosen.some(isByTime))) return undefined;
  if (targets.length === 0 && (delivering || destinations !== undefined)) return undefined;
  return {
    job,
    streams: streams && chosen.map(({ name }) => name),
    destinations: destinations && targets.map(({ name }) => name),
  };
}

/**
 * What of a command's streams and destinations each of several jobs has. A job that has nothing of them is left out.
 * @throws {CdsyncError} `stream_not_found`, `destination_not_found` if no job has one; `usage` if nothing is left
 */
function selectJobs(jobs: readonly JobConfig[], narrowing: JobSelection): readonly SelectedJob[] {
  const all = <T>(of: (job: JobConfig) => readonly T[]) => jobs.flatMap(of);
  const { streams = [], destinations = [] } = narrowing;
  assertKnown(
    'stream',
    streams,
    all((job) => job.streams.map(({ name }) => name)),
  );
  assertKnown(
    'destination',
    destinations,
    all((job) => job.destinations.map(({ name }) => name)),
  );
  const left = jobs.flatMap((job) => selectedPart(job, narrowing) ?? []);
  if (left.length > 0) return left;
  if (narrowing.byTime) {
    throw usageError(
      'no stream of these jobs is read by time, so there is nothing to read again',
      '--from and --to are for the sources that have the option `since`',
    );
  }
  throw new CdsyncError('none of these jobs has such a destination', {
    code: 'destination_not_found',
    hint: 'add one under `destinations:`; docs/destinations.md has examples',
  });
}

/** Loaded late: few commands fail. */
async function nextStep(ending: Ending): Promise<string> {
  return (await import('./next-step.js')).nextStep(ending);
}

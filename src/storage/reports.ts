import { constants } from 'node:fs';
import { access, readdir, readFile, stat } from 'node:fs/promises';
import { readFlags } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { type JobReport, type RunReport, runIdPattern, runIdStamp } from '../core/run-report.js';
import type { JobLayout } from './layout.js';

/** The report of a run; undefined if there is none, or if it cannot be read. */
export async function readReport(layout: JobLayout, runId: string): Promise<RunReport | undefined> {
  const report = await readFile(layout.report(runId), readFlags)
    .then((text) => JSON.parse(text) as RunReport)
    .catch(() => undefined);
  return typeof report?.jobs?.[0]?.run_id === 'string' ? report : undefined;
}

/** The ids of the runs that have a report, newest first. @throws the error of the file system if the reports may not be read */
export async function reportedRuns(layout: JobLayout): Promise<string[]> {
  const names = await readdir(layout.reports).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const runs = names.flatMap((name) => (name.endsWith('.json') ? [name.slice(0, -5)] : []));
  return runs
    .filter((runId) => runIdPattern.test(runId))
    .sort()
    .reverse();
}

/** The errors of those runs whose reports cannot be read. */
export async function damagedReports(layout: JobLayout, runs: readonly string[]): Promise<CdsyncError[]> {
  const damaged: CdsyncError[] = [];
  for (const runId of runs) {
    if ((await readReport(layout, runId)) !== undefined) continue;
    const message = `the report of run ${runId} is damaged: ${layout.report(runId)} cannot be read`;
    const hint = 'name another run: cdsync report RUN; the next run writes its own report';
    damaged.push(new CdsyncError(message, { code: 'state_unreadable', hint }));
  }
  return damaged;
}

/**
 * Reports of a job's runs, newest first; those that cannot be read are left out.
 * @param until only this run and those before it
 */
export async function recentReports(layout: JobLayout, most: number, until?: string): Promise<RunReport[]> {
  const names = await readdir(layout.reports).catch(() => [] as string[]);
  const runs = names.flatMap((name) => (name.endsWith('.json') ? [name.slice(0, -5)] : []));
  runs.sort().reverse();
  // A run that began later than now had a clock that was ahead.
  const latest = runIdStamp(Date.now() + 1000);
  const isAhead = (runId: string) => runId > latest;
  const ahead: RunReport[] = [];
  for (const runId of runs.filter(isAhead))
    ahead.push(...[await readReport(layout, runId)].flatMap((report) => report ?? []));
  const isCut = until !== undefined && !isAhead(until);
  const reports: RunReport[] = [];
  for (const runId of runs.filter((run) => !isAhead(run) && !(isCut && run > until))) {
    if (reports.length >= most && (until === undefined || isCut)) break;
    const report = await readReport(layout, runId);
    if (report !== undefined) reports.push(report);
  }
  const placed = await withAhead(layout, reports, ahead);
  const first = until === undefined ? 0 : placed.findIndex(({ jobs }) => jobs[0]?.run_id === until);
  return placed.slice(Math.max(0, first)).slice(0, most);
}

/** Sorts in reports of runs whose clock was ahead: numbers of snapshots show which run was later, and of one number the report's file. */
async function withAhead(
  layout: JobLayout,
  reports: readonly RunReport[],
  ahead: readonly RunReport[],
): Promise<RunReport[]> {
  const numberOf = (report: RunReport | undefined) => report?.jobs[0]?.sequence ?? 0;
  const writtenAt = async (report: RunReport | undefined) =>
    (await stat(layout.report(report?.jobs[0]?.run_id ?? '')).catch(() => undefined))?.mtimeMs ?? 0;
  const placed = [...reports];
  for (const report of ahead) {
    const [number, written] = [numberOf(report), await writtenAt(report)];
    let at = placed.findIndex((report) => numberOf(report) <= number);
    if (at < 0) at = placed.length;
    while (at < placed.length && numberOf(placed[at]) === number && (await writtenAt(placed[at])) > written) at += 1;
    placed.splice(at, 0, report);
  }
  return placed;
}

/** When a run began, by its id: milliseconds since the Unix epoch. */
export function runStartedAt(runId: string): number {
  const [, date, time] = /^(\d{8})T(\d{6})Z/.exec(runId) ?? [];
  if (date === undefined || time === undefined) return Number.NaN;
  const day = `${date.slice(0, 4)}-${date.slice(4, 6)}-${date.slice(6)}`;
  return Date.parse(`${day}T${time.slice(0, 2)}:${time.slice(2, 4)}:${time.slice(4)}Z`);
}

/**
 * The last run that committed or confirmed a snapshot of a stream, or of at least one.
 * @throws the error of the file system if the reports may not be read
 */
export async function lastGoodRun(
  layout: JobLayout,
  stream?: string,
): Promise<{ runId: string; sequence: number | null; startedAt: number } | undefined> {
  await access(layout.reports, constants.R_OK | constants.X_OK).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  for (const { jobs } of await recentReports(layout, 1000)) {
    const [job] = jobs;
    // Readers do not see a committed snapshot before it is published.
    if (job?.streams?.some(({ status, error }) => status === 'ok' && error != null)) continue;
    const isGood = job?.status === 'ok' || job?.status === 'partial';
    // A run with a held stream, or one that was interrupted after its commit, may have streams that are ok.
    const isInPart = job?.status === 'interrupted' || job?.status === 'held';
    if (stream !== undefined && !job?.streams?.some(({ name, status }) => name === stream && status === 'ok')) continue;
    if (isGood || (isInPart && job.streams.some(({ status }) => status === 'ok')))
      return { runId: job.run_id, sequence: job.sequence, startedAt: runStartedAt(job.run_id) };
  }
  return undefined;
}

/** A run of the past, from its report. */
export interface PastRun {
  readonly report: JobReport;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
}

/**
 * The last runs of a job, newest first, the one that has just finished among them. Reports that cannot be read, or that are no
 * reports, are left out.
 * @param until only this run and those before it
 */
export async function pastRuns(layout: JobLayout, most: number, until?: string): Promise<PastRun[]> {
  const reports = await recentReports(layout, most, until);
  return reports.flatMap(({ jobs }) => pastRun(jobs[0]) ?? []);
}

/** One run; undefined if its report cannot be read. */
export async function readPastRun(layout: JobLayout, runId: string): Promise<PastRun | undefined> {
  return pastRun((await readReport(layout, runId))?.jobs[0]);
}

function pastRun(report: JobReport | undefined): PastRun | undefined {
  if (report === undefined || !runIdPattern.test(report.run_id) || !Array.isArray(report.streams)) return undefined;
  return { report, startedAt: runStartedAt(report.run_id) };
}

import { constants } from 'node:fs';
import { access, readdir, readFile } from 'node:fs/promises';
import type { RunReport } from '../core/run.js';
import type { JobLayout } from './layout.js';

/** The report of a run; undefined if there is none, or if it cannot be read. */
export async function readReport(layout: JobLayout, runId: string): Promise<RunReport | undefined> {
  const report = await readFile(layout.report(runId), 'utf8')
    .then((text) => JSON.parse(text) as RunReport)
    .catch(() => undefined);
  return typeof report?.jobs?.[0]?.run_id === 'string' ? report : undefined;
}

/**
 * Reports of a job's runs, newest first; those that cannot be read are left out.
 * @param until only this run and those before it
 */
export async function recentReports(layout: JobLayout, most: number, until?: string): Promise<RunReport[]> {
  const names = await readdir(layout.reports).catch(() => [] as string[]);
  const runs = names.filter((name) => name.endsWith('.json')).map((name) => name.slice(0, -5));
  const reports: RunReport[] = [];
  for (const runId of runs.sort().reverse()) {
    if (reports.length >= most) break;
    if (until !== undefined && runId > until) continue;
    const report = await readReport(layout, runId);
    if (report !== undefined) reports.push(report);
  }
  return reports;
}

/** When a run began, by its id: milliseconds since the Unix epoch. */
export function runStartedAt(runId: string): number {
  const [, date, time] = /^(\d{8})T(\d{6})Z/.exec(runId) ?? [];
  if (date === undefined || time === undefined) return Number.NaN;
  const day = `${date.slice(0, 4)}-${date.slice(4, 6)}-${date.slice(6)}`;
  return Date.parse(`${day}T${time.slice(0, 2)}:${time.slice(2, 4)}:${time.slice(4)}Z`);
}

/**
 * The last run that brought or confirmed a snapshot, if only of some of its streams.
 * @throws the error of the file system if the reports may not be read
 */
export async function lastGoodRun(
  layout: JobLayout,
): Promise<{ runId: string; sequence: number | null; startedAt: number } | undefined> {
  await access(layout.reports, constants.R_OK | constants.X_OK).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
  });
  for (const { jobs } of await recentReports(layout, 1000)) {
    const [job] = jobs;
    // What is committed and not published is for nobody to read yet.
    if (job?.streams?.some(({ status, error }) => status === 'ok' && error != null)) continue;
    const isGood = job?.status === 'ok' || job?.status === 'partial';
    // A run of which a part is held, or that was interrupted after its commit, has streams that are ok.
    const isInPart = job?.status === 'interrupted' || job?.status === 'held';
    if (isGood || (isInPart && job.streams.some(({ status }) => status === 'ok')))
      return { runId: job.run_id, sequence: job.sequence, startedAt: runStartedAt(job.run_id) };
  }
  return undefined;
}

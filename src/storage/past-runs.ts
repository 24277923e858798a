import { type JobReport, runIdPattern } from '../core/run-report.js';
import type { JobLayout } from './layout.js';
import { readReport, recentReports, runStartedAt } from './reports.js';

/** A run of the past, as its report tells it. Reports of an older cdsync may lack fields that are newer. */
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

import type { JobReport } from '../core/run.js';
import type { JobLayout } from '../store/layout.js';
import { recentReports, runStartedAt } from '../store/reports.js';

/** A run of the past, as its report tells it. Reports of an older cdsync may lack fields that are newer. */
export interface PastRun {
  readonly report: JobReport;
  /** Milliseconds since the Unix epoch. */
  readonly startedAt: number;
}

/**
 * The last runs of a job, newest first, the one that has just finished among them. Reports that cannot be read, or that are no
 * reports, are left out.
 */
export async function pastRuns(layout: JobLayout, most: number): Promise<PastRun[]> {
  const reports = await recentReports(layout, most);
  return reports.flatMap(({ jobs }) =>
    jobs.slice(0, 1).map((report) => ({ report, startedAt: runStartedAt(report.run_id) })),
  );
}

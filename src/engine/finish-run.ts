import type { JobConfig } from '../config/config.js';
import { asCdsyncError } from '../core/errors.js';
import type { JobReport } from '../core/run-report.js';
import { dropCarriedOut } from '../delivery/erasure-log.js';
import { writePages } from '../pages/write-pages.js';
import type { RunContext } from './run-context.js';

/** Whether a job has notifications, metrics or commands. If not, their code is not loaded. */
export function hasAfterRun({ notify, metrics, after }: Pick<JobConfig, 'notify' | 'metrics' | 'after'>): boolean {
  return notify.length > 0 || after.length > 0 || metrics.textfile !== undefined || metrics.otlp !== undefined;
}

/** A run whose report is final and written. */
export interface FinishedRun extends Pick<RunContext, 'config' | 'job' | 'layout' | 'clock' | 'notice'> {
  /** With its destinations. The same as in `reports/<run>.json`. */
  readonly report: JobReport;
  /** Sends notifications and metrics, and runs commands; undefined if the job has none. */
  readonly afterRun?: { finished(report: JobReport): Promise<void> } | undefined;
}

/**
 * Writes the page about a finished run, and reports the run. A failure becomes one notice, and the rest is still done. It never
 * throws, and never changes the run.
 */
export async function finishRun({ config, job, layout, report, clock, notice, afterRun }: FinishedRun): Promise<void> {
  const { destinations = [] } = config.jobSummaries.find(({ name }) => name === job.name) ?? {};
  const page = { layout, file: config.file, destinations, now: clock.now() };
  const failed = (what: string) => (error: unknown) =>
    notice(`warning: after the run, ${what} failed: ${asCdsyncError(error).message}`);
  // A delivery has done it.
  if (job.destinations.length === 0)
    await dropCarriedOut(layout, clock.now(), destinations).catch(failed('removing keys of erased rows'));
  await writePages(page, report.run_id).catch(failed('writing its page'));
  await afterRun?.finished(report).catch(failed('notifying'));
}

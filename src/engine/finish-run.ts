import type { JobConfig } from '../config/config.js';
import { asCdsyncError } from '../core/errors.js';
import type { JobReport } from '../core/run-report.js';
import { writePages } from '../pages/write-pages.js';
import type { RunContext } from './run-context.js';

/** Whether anybody or anything is told of the runs of a job. If not, nothing of it needs to be loaded. */
export function hasAfterRun({ notify, metrics, after }: Pick<JobConfig, 'notify' | 'metrics' | 'after'>): boolean {
  return notify.length > 0 || after.length > 0 || metrics.textfile !== undefined || metrics.otlp !== undefined;
}

/** A run whose report is final and kept. */
export interface FinishedRun extends Pick<RunContext, 'config' | 'job' | 'layout' | 'clock' | 'notice'> {
  /** With its destinations. The same as in `reports/<run>.json`. */
  readonly report: JobReport;
  /** Tells people and programs outside; undefined if nobody is to be told. */
  readonly afterRun?: { finished(report: JobReport): Promise<void> } | undefined;
}

/**
 * Does what follows from a finished run, whatever its status. Nothing in it changes the run: what fails becomes one notice, and
 * the rest is still done. It never throws.
 */
export async function finishRun({ config, job, layout, report, clock, notice, afterRun }: FinishedRun): Promise<void> {
  const { destinations = [] } = config.outline.find(({ name }) => name === job.name) ?? {};
  const page = { layout, file: config.file, destinations, now: clock.now() };
  const failed = (what: string) => (error: unknown) =>
    notice(`warning: after the run, ${what} failed: ${asCdsyncError(error).message}`);
  await writePages(page, report.run_id).catch(failed('writing its page'));
  await afterRun?.finished(report).catch(failed('notifying'));
}

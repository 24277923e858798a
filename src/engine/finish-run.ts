import type { Config, JobConfig } from '../config/config.js';
import type { Clock } from '../core/clock.js';
import { asCdsyncError } from '../core/errors.js';
import type { JobReport } from '../core/run-report.js';
import { writePages } from '../pages/write-pages.js';
import type { JobLayout } from '../storage/layout.js';

/** Whether anybody or anything is told of the runs of a job. If not, nothing of it needs to be loaded. */
export function hasAfterRun({ notify, metrics, after }: Pick<JobConfig, 'notify' | 'metrics' | 'after'>): boolean {
  return notify.length > 0 || after.length > 0 || metrics.textfile !== undefined || metrics.otlp !== undefined;
}

/** A run whose report is final and kept. */
export interface FinishedRun {
  readonly config: Config;
  readonly job: JobConfig;
  readonly layout: JobLayout;
  /** With its destinations. The same as in `reports/<run>.json`. */
  readonly report: JobReport;
  readonly clock: Clock;
  /** Shows the user a line. */
  readonly notice: (line: string) => void;
  /** Tells people and programs outside; undefined if nobody is to be told. */
  readonly telling?: { finished(report: JobReport): Promise<void> } | undefined;
}

/** One thing that follows from a run. It may throw: {@link finishRun} makes a notice of that. */
interface AfterRunStep {
  /** Continues the sentence "after the run, … failed". */
  readonly what: string;
  do(run: FinishedRun): Promise<void>;
}

const pages: AfterRunStep = {
  what: 'making its page',
  do: ({ config, job, layout, report, clock }) => {
    const { destinations = [] } = config.outline.find(({ name }) => name === job.name) ?? {};
    return writePages({ layout, file: config.file, destinations, now: clock.now() }, report.run_id);
  },
};

const telling: AfterRunStep = {
  what: 'telling of it',
  do: async ({ telling: to, report }) => to?.finished(report),
};

/** In this order, one after the other. */
const consequences: readonly AfterRunStep[] = [pages, telling];

/**
 * Does what follows from a finished run, whatever its status. Nothing in it changes the run: what fails becomes one notice, and
 * the rest is still done. It never throws.
 */
export async function finishRun(run: FinishedRun, all: readonly AfterRunStep[] = consequences): Promise<void> {
  for (const { what, do: work } of all) {
    try {
      await work(run);
    } catch (error) {
      run.notice(`warning: after the run, ${what} failed: ${asCdsyncError(error).message}`);
    }
  }
}

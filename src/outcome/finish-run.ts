import type { Config, JobConfig } from '../config/config.js';
import type { Clock } from '../core/clock.js';
import { asCdsyncError } from '../core/errors.js';
import type { JobReport } from '../core/run.js';
import type { JobLayout } from '../store/layout.js';
import { writePages } from './write-pages.js';

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
interface Consequence {
  /** Continues the sentence "after the run, … failed". */
  readonly what: string;
  do(run: FinishedRun): Promise<void>;
}

const pages: Consequence = {
  what: 'making its page',
  do: ({ config, job, layout, report, clock }) => {
    const { destinations = [] } = config.outline.find(({ name }) => name === job.name) ?? {};
    return writePages({ layout, file: config.file, destinations, now: clock.now() }, report.run_id);
  },
};

const telling: Consequence = {
  what: 'telling of it',
  do: async ({ telling: to, report }) => to?.finished(report),
};

/** In this order, one after the other. */
const consequences: readonly Consequence[] = [pages, telling];

/**
 * Does what follows from a finished run, whatever its status. Nothing in it changes the run: what fails becomes one notice, and
 * the rest is still done. It never throws.
 */
export async function finishRun(run: FinishedRun, all: readonly Consequence[] = consequences): Promise<void> {
  for (const { what, do: work } of all) {
    try {
      await work(run);
    } catch (error) {
      run.notice(`warning: after the run, ${what} failed: ${asCdsyncError(error).message}`);
    }
  }
}

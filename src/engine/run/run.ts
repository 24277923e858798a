import type { Config, JobConfig } from '../../config/config.js';
import { callEvery } from '../../core/clock.js';
import { CdsyncError } from '../../core/errors.js';
import { onAbort } from '../../core/on-abort.js';
import type { JobReport } from '../../core/run-report.js';
import type { Budget } from '../../rate-limit/budget.js';
import { openBudget } from '../../rate-limit/open-budget.js';
import { withJobFiles } from '../job-files.js';
import { jobContext, withEngine } from '../open-engine.js';
import { newProgress, type RunProgress } from '../progress.js';
import { runAndDeliver } from './run-and-deliver.js';

/** How often `onProgress` is called. */
const progressMs = 1_000;

export interface RunOptions {
  /** The job to run; may be left out if the configuration has only one. */
  readonly job?: string | undefined;
  /** Aborts to stop the run. Complete parts are kept, and the next run resumes. */
  readonly signal?: AbortSignal | undefined;
  /** One for all runs that send to one service at once; the run does not close it. Default: a budget for this run alone. */
  readonly budget?: Budget | undefined;
  /** Whether the destinations are loaded after the run. Default true. */
  readonly deliver?: boolean | undefined;
  /** Gets each notice for people: a deprecation, for example. If it throws, it is not called again. */
  readonly onNotice?: ((line: string) => void) | undefined;
  /** Gets the run's progress about once a second, always the same object. If it throws, it is not called again. */
  readonly onProgress?: ((progress: RunProgress) => void) | undefined;
}

/** A caller's function that cannot end a run: its first error is a warning of the process, and it is not called again. */
function harmless<T>(name: string, callback: ((value: T) => void) | undefined): (value: T) => void {
  let isCalled = callback !== undefined;
  return (value) => {
    try {
      if (isCalled) callback?.(value);
    } catch (error) {
      isCalled = false;
      process.emitWarning(
        `${name} threw an error, and is not called again in this run: ${String(error)}`,
        'CdsyncWarning',
      );
    }
  };
}

/** @throws {CdsyncError} `usage`, `job_not_found` */
function chosenJob({ jobs, jobSummaries }: Config, { job: wanted, deliver = true }: RunOptions): JobConfig {
  const loaded = jobs.map(({ name }) => name);
  if (wanted === undefined && jobs.length > 1) {
    throw new CdsyncError(`the configuration has several jobs: ${loaded.join(', ')}`, {
      code: 'usage',
      hint: `choose one, for example: run(config, { job: '${loaded[0]}' })`,
    });
  }
  const job = jobs.find(({ name }) => wanted === undefined || name === wanted);
  if (job === undefined) {
    throw new CdsyncError(wanted === undefined ? 'no job was loaded' : `no job is called ${JSON.stringify(wanted)}`, {
      code: 'job_not_found',
      hint: `the jobs that were loaded: ${loaded.join(', ') || 'none'}`,
    });
  }
  if (!deliver) return { ...job, destinations: [] };
  const configured = jobSummaries.find(({ name }) => name === job.name)?.destinations ?? [];
  if (configured.length > 0 && job.destinations.length === 0) {
    throw new CdsyncError(`job "${job.name}" was loaded without its destinations`, {
      code: 'usage',
      hint: 'load it with needs: { destinations: true }, or run it with deliver: false',
    });
  }
  return job;
}

/**
 * Runs one job of a configuration as `cdsync run` does: reads its streams, commits what changed, publishes it, and loads its
 * destinations. It prints nothing and leaves the process alone: its umask, signals, environment and exit code.
 *
 * Any number of jobs may run in parallel, each with its own DuckDB that takes the configuration's `memory_mb`. A stream or a
 * destination that fails does not throw: the report says so.
 *
 * @returns what `cdsync run --json` has under `jobs`; its status is `interrupted` if the signal has aborted
 * @throws {CdsyncError} instead of a report: kind `configuration` (`job_not_found`, `usage`), kind `locked` if the
 *   job is being run, here or in another process, kind `interrupted` if the signal aborts before there is anything to report, and
 *   kind `fatal` for a storage folder that cannot be used (`storage_newer`, `state_unreadable`, `disk_full`)
 */
export async function run(config: Config, options: RunOptions = {}): Promise<JobReport> {
  const job = chosenJob(config, options);
  const { signal } = options;
  const onNotice = harmless('onNotice', options.onNotice);
  const onProgress = options.onProgress && harmless('onProgress', options.onProgress);
  const budget = options.budget ?? openBudget(config.service.budget, onNotice);
  // The run gets its own signal: it adds many listeners, and the program's signal may outlive many runs. Its reason is always
  // that of an interruption, whatever the program's reason.
  const stop = new AbortController();
  const release = signal && onAbort(signal, () => stop.abort());
  const progress = newProgress(
    job.name,
    job.streams.map(({ name }) => name),
  );
  const timer = onProgress && callEvery(progressMs, () => onProgress(progress));
  try {
    const engineOptions = { signal: stop.signal, notice: onNotice, budget };
    const notice = engineOptions.notice;
    const placed = { config, job: job.name, need: 'run', notice, signal: stop.signal } as const;
    return await withJobFiles(placed, (place) =>
      withEngine(config, { ...engineOptions, place }, (engine) =>
        runAndDeliver({ ...jobContext(engine, job), progress }),
      ),
    );
  } finally {
    clearInterval(timer);
    release?.();
    if (options.budget === undefined) await budget.close();
  }
}

import type { Argv } from 'yargs';
import type { Config, JobConfig } from '../config/config.js';
import { parseMoment } from '../core/quantities.js';
import type { JobReport } from '../core/run-report.js';
import {
  type Command,
  configPositional,
  flag,
  type JobsArguments,
  jobsOptions,
  many,
  shownWord,
  textOption,
} from './arguments.js';
import type { Interruption } from './interruption.js';
import { type CommonArguments, Output, usageError } from './output.js';

interface RunArguments extends JobsArguments {
  stream?: string[] | undefined;
  full: boolean;
  accept: boolean;
  rekey: boolean;
  noPush: boolean;
  from?: string | undefined;
  to?: string | undefined;
}

/** `cdsync run`: reads every stream of a job, then commits, publishes and delivers the changes. */
export const runCommand: Command<CommonArguments, RunArguments> = {
  // The cast: yargs also gives options with dashes a name in camel case; its types do not show that.
  builder: (parser) =>
    jobsOptions(configPositional(parser))
      .option('stream', many('only this stream; may be given again'))
      .option('full', flag('start again, even if an earlier run was cut short'))
      .option('accept', flag('accept a changed filter, key or query; skip change guards'))
      .option('rekey', flag('re-hash columns after a salt change; skip change guards'))
      .option('no-push', flag('leave the destinations for a later run, or for cdsync push'))
      .options({
        from: textOption('read streams that are read by time from this time on, even if they were read before'),
        to: textOption('with --from: up to this time [default: now]'),
      })
      .epilogue(
        'The next run resumes one that was cut short. Exit codes: 0 ok, 1 failed, 2 wrong configuration, 3 held by a guard,\n' +
          '4 refused by the service, 5 partial, 75 locked by another run, 130 interrupted (checkpoint kept).',
      ) as unknown as Argv<RunArguments>,
  handler: async (args) => {
    process.exitCode = await run(args, new Output(args));
  },
};

async function run(args: RunArguments, output: Output): Promise<number> {
  const { loadJobs } = await import('./load.js');
  const range = rangeOf(args);
  const { config, jobs } = await loadJobs(args, output, { destinations: !args.noPush, outcome: true });
  const { interruption } = await import('./interruption.js');
  const { reportPrinter } = await import('./print-report.js');
  const { forEachJob } = await import('./for-each-job.js');
  const stop = interruption(output, 'the records read so far are being kept');
  const { storage } = config;
  const only = { streams: args.stream, byTime: range !== undefined };
  return forEachJob(
    { command: 'run', args, output, storage, jobs, only, stop },
    {
      ...reportPrinter(output),
      work: (job, { streams }) =>
        runShown({ ...args, stream: streams && [...streams] }, output, { config, job, stop, range }),
    },
  );
}

/** Milliseconds since 1970. */
interface Range {
  readonly from: number;
  readonly to: number;
}

/** @throws {CdsyncError} `usage` */
function rangeOf({ from, to }: RunArguments): Range | undefined {
  if (from === undefined && to === undefined) return undefined;
  if (from === undefined) throw usageError('--to needs --from', 'for example: --from 2026-01-01 --to 2026-02-01');
  const bounds = { from: parseMoment(from), to: to === undefined ? Date.now() : parseMoment(to) };
  if (bounds.from < bounds.to) return bounds;
  throw usageError(
    `--from and --to must be times, the first before the second, not ${[from, to ?? 'now'].map(shownWord).join(' and ')}`,
    'for example: --from 2026-01-01 --to 2026-02-01',
  );
}

/** Runs the job, with its progress on standard error, until it is done or interrupted. */
async function runShown(
  args: RunArguments,
  output: Output,
  { config, job, stop, range }: { config: Config; job: JobConfig; stop: Interruption; range: Range | undefined },
): Promise<JobReport> {
  const { withJobFiles } = await import('../engine/job-files.js');
  const { jobContext, withEngine } = await import('../engine/open-engine.js');
  const { runAndDeliver } = await import('../engine/run/run-and-deliver.js');
  const { newProgress } = await import('../engine/progress.js');
  const { showProgress } = await import('./show-progress.js');
  const { engineOptions } = await import('./engine-options.js');
  const { stream: only, full, accept, rekey } = args;
  const progress = newProgress(job.name, args.stream ?? job.streams.map(({ name }) => name));
  const shown = showProgress(progress, config.service.rateLimits.profile, output, args);
  try {
    const options = engineOptions(stop, output, config.service);
    return await withJobFiles({ config, job: job.name, need: 'run', ...options }, (place) =>
      withEngine(config, { ...options, place }, (engine) =>
        runAndDeliver({ ...jobContext(engine, job, { only, full, accept, rekey, range }), progress }),
      ),
    );
  } finally {
    shown.stop();
  }
}

import type { Config, JobConfig, LocalConfig } from '../config/config.js';
import type { JobReport } from '../core/run.js';
import { configPositional, jobsOptions } from './arguments.js';
import type { Command } from './command.js';
import type { Interruption } from './interruption.js';
import type { JobsArguments } from './load.js';
import { type CommonArguments, Output } from './output.js';

interface PushArguments extends JobsArguments {
  destination?: string[] | undefined;
  stream?: string[] | undefined;
  full: boolean;
  adopt: boolean;
}

/** `cdsync push`: brings destinations up to date with what is published. */
export const pushCommand: Command<CommonArguments, PushArguments> = {
  builder: (parser) =>
    jobsOptions(configPositional(parser))
      .option('destination', {
        type: 'string',
        array: true,
        requiresArg: true,
        describe: 'only this destination; may be given again',
      })
      .option('stream', {
        type: 'string',
        array: true,
        requiresArg: true,
        describe: 'only this stream; may be given again',
      })
      .option('full', {
        type: 'boolean',
        default: false,
        describe: 'send everything, even what the destination has already',
      })
      .option('adopt', {
        type: 'boolean',
        default: false,
        describe: 'take over tables and watermarks that are not from this storage folder',
      })
      .epilogue(
        'Asks the service for nothing, and runs beside a run. Exit codes: 0 done, 1 failed, 2 wrong configuration,\n' +
          '4 refused by the destinations, 5 done in part, 75 another process delivers there, 130 interrupted.',
      ),
  handler: async (args) => {
    process.exitCode = await push(args, new Output(args));
  },
};

async function push(args: PushArguments, output: Output): Promise<number> {
  const { asksForSeveral, loadDestinations } = await import('./load.js');
  const { interruption } = await import('./interruption.js');
  const { reporting } = await import('./tell-report.js');
  const { narrowJobs } = await import('./narrow-jobs.js');
  const { workOnJobs } = await import('./work-on-jobs.js');
  const { config, jobs } = await loadDestinations(args, output);
  const { stream: streams, destination: destinations } = args;
  const narrowed = asksForSeveral(args)
    ? narrowJobs(jobs, { streams, destinations, delivering: true })
    : jobs.map((job) => ({ job, streams, destinations }));
  const stop = interruption(output, 'loads under way are rolled back');
  const { storage } = config;
  const task = { command: 'push', args, output, storage, jobs: narrowed.map(({ job }) => job), signal: stop.signal };
  try {
    return await workOnJobs(task, {
      ...reporting(output),
      work: async (job) => {
        const only = narrowed.find((each) => each.job === job);
        return pushShown({ ...args, ...only, job }, output, { config, stop });
      },
    });
  } finally {
    stop.release();
  }
}

interface PushTask
  extends Pick<PushArguments, 'full' | 'adopt' | 'quiet' | 'json' | 'verbose' | 'showValues' | 'logFormat'> {
  readonly job: JobConfig;
  readonly streams?: readonly string[] | undefined;
  readonly destinations?: readonly string[] | undefined;
}

/** Delivers, with progress on standard error, until it is done or interrupted. */
async function pushShown(
  { job, streams, destinations, full, adopt, ...common }: PushTask,
  output: Output,
  { config, stop }: { config: LocalConfig & Partial<Config>; stop: Interruption },
): Promise<JobReport> {
  const { changeJob } = await import('../engine/job-place.js');
  const { withDelivery } = await import('../engine/open-engine.js');
  const { newProgress } = await import('../engine/progress.js');
  const { pushAndTell } = await import('../engine/run/push-job.js');
  const { showProgress } = await import('./show-progress.js');
  const { engineOptions } = await import('./engine-options.js');
  const progress = newProgress(job.name, []);
  progress.phase = 'delivering';
  const shown = showProgress(progress, 1, output, common);
  const options = engineOptions(stop, output, config.service);
  try {
    return await changeJob({ config, job: job.name, need: 'deliver', ...options }, (place) =>
      withDelivery(config, { ...options, place }, (engine) =>
        pushAndTell(
          { ...engine, config, layout: place.layout },
          { job, destinations, streams, full, adopt, progress: progress.destinations },
        ),
      ),
    );
  } finally {
    shown.stop();
  }
}

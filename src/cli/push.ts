import type { JobReport } from '../core/run.js';
import { configPositional, jobOption } from './arguments.js';
import type { Command } from './command.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output } from './output.js';

interface PushArguments extends JobArguments {
  destination?: string[] | undefined;
  stream?: string[] | undefined;
  full: boolean;
  adopt: boolean;
}

/** `cdsync push`: brings destinations up to date with what is published. */
export const pushCommand: Command<CommonArguments, PushArguments> = {
  builder: (parser) =>
    jobOption(configPositional(parser))
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
  const { inJob, loadDestinations } = await import('./load.js');
  const { tellReport } = await import('./tell-report.js');
  const loaded = await loadDestinations(args, output);
  const { storage } = loaded.config;
  return inJob(args, { storage, job: loaded.job.name }, async () =>
    tellReport(await pushShown(args, output, loaded), args, output, storage),
  );
}

/** Delivers, with progress on standard error, until it is done or interrupted. */
async function pushShown(
  args: PushArguments,
  output: Output,
  { config, job }: Awaited<ReturnType<typeof import('./load.js').loadDestinations>>,
): Promise<JobReport> {
  const { withDelivery } = await import('../engine/open-engine.js');
  const { newProgress } = await import('../engine/progress.js');
  const { pushJob } = await import('../engine/run/push-job.js');
  const { showProgress } = await import('./show-progress.js');
  const { engineOptions } = await import('./engine-options.js');
  const { interruption } = await import('./interruption.js');
  const stop = interruption(output, 'loads under way are rolled back');
  const progress = newProgress(job.name, []);
  progress.phase = 'delivering';
  const shown = showProgress(progress, 1, output, args);
  const options = engineOptions(stop, output, config.service);
  try {
    return await withDelivery(config, options, (engine) =>
      pushJob(
        { ...engine, layout: engine.layoutOf(job.name) },
        {
          job,
          destinations: args.destination,
          streams: args.stream,
          full: args.full,
          adopt: args.adopt,
          progress: progress.destinations,
        },
      ),
    );
  } finally {
    shown.stop();
    stop.release();
  }
}

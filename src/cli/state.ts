import type { Argv, CommandModule } from 'yargs';
import { type Command, configPositional, type JobArguments, jobOption, many, textOption } from './arguments.js';
import { type CommonArguments, Output, usageError } from './output.js';
import { terminalWidth } from './standard-streams.js';

interface StateArguments extends JobArguments {
  stream?: string[] | undefined;
  partition?: string | undefined;
  destination?: string | undefined;
}

const showCommand: CommandModule<CommonArguments, JobArguments> = {
  command: 'show [config]',
  describe: 'show the sync state of a job',
  builder: (parser) => jobOption(configPositional(parser)),
  handler: async (args) => {
    const { destinationsOf, inJob, loadLocalJobs } = await import('./load.js');
    const { withStorage } = await import('../engine/open-engine.js');
    const { readJobFiles } = await import('../engine/job-files.js');
    const { jobState } = await import('../engine/admin/job-state.js');
    const { stateLines } = await import('../output/state.js');
    const output = new Output(args);
    const { config, job } = await loadLocalJobs(args, output);
    const destinations = destinationsOf(config, job);
    const state = await inJob({ storage: config.storage, job: job.name }, () =>
      readJobFiles({ config, job: job.name, need: 'store', notice: (line) => output.notice(line) }, (place) =>
        withStorage(config, (engine) => jobState(engine, job, { showValues: args.showValues, destinations }), place),
      ),
    );
    output.document(state);
    for (const line of stateLines(state, terminalWidth())) output.result(line);
  },
};

async function resetDestinationShown(
  args: StateArguments,
  destination: string,
  { config, job }: Awaited<ReturnType<typeof import('./load.js').loadLocalJobs>>,
): Promise<void> {
  const { destinationsOf, inJob } = await import('./load.js');
  const { withStorage } = await import('../engine/open-engine.js');
  const { resetDestination } = await import('../engine/admin/job-state.js');
  const { withJobFiles } = await import('../engine/job-files.js');
  const output = new Output(args);
  const streams = await inJob({ storage: config.storage, job: job.name }, () =>
    withJobFiles({ config, job: job.name, need: 'store', notice: (line) => output.notice(line) }, (place) =>
      withStorage(
        config,
        (engine) =>
          resetDestination(engine, job.name, destinationsOf(config, job), { destination, streams: args.stream }),
        place,
      ),
    ),
  );
  output.document({ job: job.name, destination, streams });
  output.result(`forgot the local state of destination ${destination}: ${streams.join(', ')}`);
  output.advice('its tables stay as they are; cdsync push --full sends everything once more');
}

const resetCommand: CommandModule<CommonArguments, StateArguments> = {
  command: 'reset [config]',
  describe: 'forget how far streams were read, or the state of a destination; the snapshot stays',
  builder: (parser) =>
    jobOption(configPositional(parser)).options({
      stream: many('only this stream; may be given again'),
      destination: textOption(
        'forget the local state of this destination instead: rows that it refused, and how far an event stream or a webhook is',
      ),
      partition: textOption('only this part of the stream, as `state show` names it; a window of time as from/to'),
    }),
  handler: async (args) => {
    const { inJob, loadLocalJobs } = await import('./load.js');
    const { withStorage } = await import('../engine/open-engine.js');
    const { withJobFiles } = await import('../engine/job-files.js');
    const { resetState } = await import('../engine/admin/job-state.js');
    const { resetLines } = await import('../output/state.js');
    if (args.partition !== undefined && args.stream?.length !== 1) {
      throw usageError('--partition is a part of one stream', 'say which: --stream NAME');
    }
    const output = new Output(args);
    const loaded = await loadLocalJobs(args, output);
    const { config, job } = loaded;
    const { destination } = args;
    if (destination !== undefined) {
      if (args.partition !== undefined)
        throw usageError('--partition is a part of a stream, and a destination has none', 'leave one of them');
      return resetDestinationShown(args, destination, loaded);
    }
    const reset = await inJob({ storage: config.storage, job: job.name }, () =>
      withJobFiles({ config, job: job.name, need: 'store', notice: (line) => output.notice(line) }, (place) =>
        withStorage(
          config,
          (engine) => resetState(engine, job, { streams: args.stream, partition: args.partition }),
          place,
        ),
      ),
    );
    output.document({ job: job.name, streams: reset });
    for (const line of resetLines(reset)) output.result(line);
  },
};

const removeCommand: CommandModule<
  CommonArguments,
  JobArguments & { stream?: string | undefined; destination?: string | undefined }
> = {
  command: 'remove [config]',
  describe: 'take out a stream, or the state of a destination, that left the configuration',
  builder: (parser) =>
    jobOption(configPositional(parser)).options({
      stream: textOption('this stream, with its rows, history, Parquet files and caches'),
      destination: textOption('the part of the storage folder about this destination'),
    }),
  handler: async (args) => {
    const { stream, destination } = args;
    if ((stream === undefined) === (destination === undefined))
      throw usageError('state remove takes out one thing', 'say which: --stream NAME or --destination NAME');
    const { destinationsOf, inJob, loadLocalJobs } = await import('./load.js');
    const { withStorage } = await import('../engine/open-engine.js');
    const { withJobFiles } = await import('../engine/job-files.js');
    const { removeState } = await import('../engine/admin/remove-state.js');
    const { removedLines } = await import('../output/state.js');
    const output = new Output(args);
    const { config, job } = await loadLocalJobs(args, output);
    const choice = stream === undefined ? { destination: destination as string } : { stream };
    const removed = await inJob({ storage: config.storage, job: job.name }, () =>
      withJobFiles({ config, job: job.name, need: 'everything', notice: (line) => output.notice(line) }, (place) => {
        place.layout.remoteFiles?.collectImmediately();
        return withStorage(config, (engine) => removeState(engine, job, destinationsOf(config, job), choice), place);
      }),
    );
    output.document(removed);
    for (const line of removedLines(removed)) output.result(line);
  },
};

/** `cdsync state`: shows the sync state of a job, resets it, and takes out what left the configuration. */
export const stateCommand: Command<CommonArguments, CommonArguments> = {
  builder: (parser) =>
    parser
      .command(showCommand as unknown as CommandModule)
      .command(resetCommand as unknown as CommandModule)
      .command(removeCommand as unknown as CommandModule)
      .demandCommand(1, 'choose: show, reset or remove') as unknown as Argv<CommonArguments>,
  handler: () => undefined,
};

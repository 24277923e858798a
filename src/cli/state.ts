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
    const { inLocalJob } = await import('./load.js');
    const { jobState } = await import('../engine/admin/job-state.js');
    const { stateLines } = await import('../output/state.js');
    const output = new Output(args);
    const state = await inLocalJob(args, output, { need: 'store' }, ({ job, destinations, withEngine }) =>
      withEngine((engine) => jobState(engine, job, { showValues: args.showValues, destinations })),
    );
    output.document(state);
    for (const line of stateLines(state, terminalWidth())) output.result(line);
  },
};

async function resetDestinationShown(args: StateArguments, destination: string): Promise<void> {
  const { inLocalJob } = await import('./load.js');
  const { resetDestination } = await import('../engine/admin/job-state.js');
  const output = new Output(args);
  const choice = { destination, streams: args.stream };
  const reset = await inLocalJob(args, output, { need: 'store', changes: true }, ({ job, destinations, withEngine }) =>
    withEngine(async (engine) => ({
      job: job.name,
      streams: await resetDestination(engine, job.name, destinations, choice),
    })),
  );
  output.document({ job: reset.job, destination, streams: reset.streams });
  output.result(`forgot the local state of destination ${destination}: ${reset.streams.join(', ')}`);
  output.advice(
    'its tables stay as they are; cdsync push --full sends everything once more, and deletes of erased people',
  );
}

const resetCommand: CommandModule<CommonArguments, StateArguments> = {
  command: 'reset [config]',
  describe: 'forget how far streams were read, or the state of a destination; the snapshot stays',
  builder: (parser) =>
    jobOption(configPositional(parser)).options({
      stream: many('only this stream; may be given again'),
      destination: textOption(
        'forget the local state of this destination instead: rows that it refused, and how far `event_stream`, `http` and `export` are',
      ),
      partition: textOption('only this part of the stream, as `state show` names it; a window of time as from/to'),
    }),
  handler: async (args) => {
    const { destination, partition, stream } = args;
    if (partition !== undefined && stream?.length !== 1)
      throw usageError('--partition is a part of one stream', 'say which: --stream NAME');
    if (partition !== undefined && destination !== undefined)
      throw usageError('--partition is a part of a stream, and a destination has none', 'leave one of them');
    if (destination !== undefined) return resetDestinationShown(args, destination);
    const { inLocalJob } = await import('./load.js');
    const { resetState } = await import('../engine/admin/job-state.js');
    const { resetLines } = await import('../output/state.js');
    const output = new Output(args);
    const reset = await inLocalJob(args, output, { need: 'store', changes: true }, ({ job, withEngine }) =>
      withEngine(async (engine) => ({
        job: job.name,
        streams: await resetState(engine, job, { streams: stream, partition }),
      })),
    );
    output.document(reset);
    for (const line of resetLines(reset.streams)) output.result(line);
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
    const { inLocalJob } = await import('./load.js');
    const { removeState } = await import('../engine/admin/remove-state.js');
    const { removedLines } = await import('../output/state.js');
    const output = new Output(args);
    const choice = stream === undefined ? { destination: destination as string } : { stream };
    const removed = await inLocalJob(args, output, { need: 'everything', changes: true }, (local) => {
      local.layout.remoteFiles?.collectImmediately();
      return local.withEngine((engine) => removeState(engine, local.job, local.destinations, choice));
    });
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

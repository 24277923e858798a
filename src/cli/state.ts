import type { Argv, CommandModule } from 'yargs';
import { configPositional, jobOption, textOption } from './arguments.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output, usageError } from './output.js';

interface StateArguments extends JobArguments {
  stream?: string[] | undefined;
  partition?: string | undefined;
}

const showCommand: CommandModule<CommonArguments, JobArguments> = {
  command: 'show [config]',
  describe: 'show what a job remembers between runs',
  builder: (parser) => jobOption(configPositional(parser)),
  handler: async (args) => {
    const { inJob, loadLocalJob } = await import('./load.js');
    const { withStorage } = await import('../engine/open-engine.js');
    const { jobState } = await import('../engine/job-state.js');
    const { stateLines } = await import('../report/state.js');
    const { config, job } = await loadLocalJob(args);
    const state = await inJob(args, { storage: config.storage, job: job.name }, () =>
      withStorage(config, (engine) => jobState(engine, job, { showValues: args.showValues })),
    );
    const output = new Output(args);
    output.document(state);
    for (const line of stateLines(state)) output.result(line);
  },
};

const resetCommand: CommandModule<CommonArguments, StateArguments> = {
  command: 'reset [config]',
  describe: 'forget how far streams were read; the snapshot stays',
  builder: (parser) =>
    jobOption(configPositional(parser)).options({
      stream: {
        type: 'string',
        array: true,
        requiresArg: true,
        describe: 'only this stream; may be given again',
      },
      partition: textOption('only this part of the stream, as `state show` names it; a window of time as from/to'),
    }),
  handler: async (args) => {
    const { inJob, loadLocalJob } = await import('./load.js');
    const { withStorage } = await import('../engine/open-engine.js');
    const { resetState } = await import('../engine/job-state.js');
    const { resetLines } = await import('../report/state.js');
    if (args.partition !== undefined && args.stream?.length !== 1) {
      throw usageError('--partition is a part of one stream', 'say which: --stream NAME');
    }
    const { config, job } = await loadLocalJob(args);
    const reset = await inJob(args, { storage: config.storage, job: job.name }, () =>
      withStorage(config, (engine) => resetState(engine, job, { streams: args.stream, partition: args.partition })),
    );
    const output = new Output(args);
    output.document({ job: job.name, streams: reset });
    for (const line of resetLines(reset)) output.result(line);
  },
};

/** `cdsync state`: what a job remembers between runs, and how to make it forget. */
export const stateCommand: CommandModule<CommonArguments, CommonArguments> = {
  command: 'state',
  describe: 'show what a job remembers between runs, or make it forget how far it has read',
  builder: (parser) =>
    parser
      .command(showCommand as unknown as CommandModule)
      .command(resetCommand as unknown as CommandModule)
      .demandCommand(1, 'show or reset') as unknown as Argv<CommonArguments>,
  handler: () => undefined,
};

import type { Argv } from 'yargs';
import { type Command, configPositional, type JobArguments, jobOption } from './arguments.js';
import { type CommonArguments, Output, usageError } from './output.js';

/** `cdsync mcp`: the published file of a job for a program that speaks the Model Context Protocol. */
export const mcpCommand: Command<CommonArguments, JobArguments> = {
  builder: (parser) =>
    jobOption(configPositional(parser)).example(
      '$0 mcp /etc/cdsync/cdsync.yaml --show-values',
      'with the tool `query`: its results go to the company that runs the model',
    ) as unknown as Argv<JobArguments>,
  handler: async (args) => {
    if (args.json) throw usageError('--json has no use here: standard output is the protocol', 'leave it out');
    const { destinationsOf, inJob, loadLocalJobs } = await import('./load.js');
    const { toolsOf } = await import('../mcp/tools.js');
    const { serveTools } = await import('../mcp/server.js');
    const { interruption } = await import('./interruption.js');
    const output = new Output(args);
    const { config, job } = await loadLocalJobs(args, output);
    const tools = toolsOf({
      config,
      job: job.name,
      streams: job.streams.map(({ name }) => name),
      destinations: destinationsOf(config, job),
      showsValues: args.showValues,
      notice: (line) => output.notice(line),
    });
    const stop = interruption(output);
    await inJob({ storage: config.storage, job: job.name }, () => serveTools(tools, stop.signal));
    stop.release();
  },
};

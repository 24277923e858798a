import { configPositional, jobOption } from './arguments.js';
import type { Command } from './command.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output } from './output.js';

/** `cdsync status`: shows the last runs, the snapshot, and what a run is doing or has left behind. */
export const statusCommand: Command<CommonArguments, JobArguments> = {
  builder: (parser) => jobOption(configPositional(parser)),
  handler: async (args) => {
    const { loadLocalJob } = await import('./load.js');
    const { JobLayout } = await import('../store/layout.js');
    const { checkStorage } = await import('../store/storage.js');
    const { jobStatus, statusLines } = await import('../report/status.js');
    const { config, job, destinations } = await loadLocalJob(args);
    const output = new Output(args);
    const layout = new JobLayout(config.storage, job.name);
    await checkStorage(layout);
    const status = await jobStatus(
      layout,
      job.streams.map(({ name }) => name),
      destinations,
    );
    output.document(status);
    for (const line of statusLines(status, Date.now())) output.result(line);
  },
};

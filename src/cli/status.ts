import type { BudgetShare } from '../client/budget.js';
import { configPositional, jobOption } from './arguments.js';
import type { Command } from './command.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output } from './output.js';

/** The share of the budget that a running process has, if the variables of the service are set here too. */
async function shareOf(args: JobArguments, pid: number): Promise<BudgetShare | undefined> {
  const { loadService } = await import('./load-service.js');
  const { processShare } = await import('../client/process-share.js');
  const config = await loadService({ ...args, config: args.config }).catch(() => undefined);
  return config && processShare(config.service, pid);
}

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
      (pid) => shareOf(args, pid),
    );
    output.document(status);
    for (const line of statusLines(status, Date.now())) output.result(line);
  },
};

import type { BudgetShare } from '../client/budget.js';
import { configPositional, jobsOptions } from './arguments.js';
import type { Command } from './command.js';
import type { JobsArguments } from './load.js';
import { type CommonArguments, Output } from './output.js';

/** The share of the budget that a running process has, if the variables of the service are set here too. */
async function shareOf(args: JobsArguments, pid: number): Promise<BudgetShare | undefined> {
  const { loadService } = await import('./load-service.js');
  const { processShare } = await import('../client/process-share.js');
  const config = await loadService({ ...args, config: args.config }).catch(() => undefined);
  return config && processShare(config.service, pid);
}

/** `cdsync status`: shows the last runs, the snapshot, and what a run is doing or has left behind. */
export const statusCommand: Command<CommonArguments, JobsArguments> = {
  builder: (parser) => jobsOptions(configPositional(parser)),
  handler: async (args) => {
    const { destinationsOf, loadLocalJobs } = await import('./load.js');
    const { lookAtJob } = await import('../engine/job-place.js');
    const { checkStorage } = await import('../store/storage.js');
    const { jobStatus, statusLines } = await import('../report/status.js');
    const { workOnJobs } = await import('./work-on-jobs.js');
    const output = new Output(args);
    const { config, jobs } = await loadLocalJobs(args, output);
    const { storage } = config;
    process.exitCode = await workOnJobs(
      { command: 'status', args, output, storage, jobs },
      {
        work: async (job) => {
          const streams = job.streams.map(({ name }) => name);
          const placed = {
            config,
            job: job.name,
            need: 'small',
            notice: (line: string) => output.notice(line),
          } as const;
          return lookAtJob(placed, async ({ layout }) => {
            await checkStorage(layout);
            return jobStatus(layout, streams, destinationsOf(config, job), (pid) => shareOf(args, pid));
          });
        },
        document: (status) => status,
        tell: (status) => {
          for (const line of statusLines(status, Date.now())) output.advice(line);
          return { code: 0 };
        },
      },
    );
  },
};

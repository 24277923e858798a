import type { LimitShare } from '../rate-limit/budget.js';
import { type Command, configPositional, type JobsArguments, jobsOptions } from './arguments.js';
import { type CommonArguments, Output } from './output.js';
import { terminalWidth } from './standard-streams.js';

/** The share of the budget that a running process has, if the variables of the service are set here too. */
async function shareOf(args: JobsArguments, pid: number): Promise<LimitShare | undefined> {
  const { loadService } = await import('./service-from-flags.js');
  const { readLimitShare } = await import('../rate-limit/file-leases.js');
  const config = await loadService({ ...args, config: args.config }).catch(() => undefined);
  return config && readLimitShare(config.service, pid);
}

/** `cdsync status`: shows the last runs, the snapshot, and the work of a current or unfinished run. */
export const statusCommand: Command<CommonArguments, JobsArguments> = {
  builder: (parser) => jobsOptions(configPositional(parser)),
  handler: async (args) => {
    const { destinationsOf, loadLocalJobs } = await import('./load.js');
    const { readJobFiles } = await import('../engine/job-files.js');
    const { checkStorage } = await import('../storage/storage.js');
    const { jobStatus, statusLines } = await import('../output/status.js');
    const { forEachJob } = await import('./for-each-job.js');
    const output = new Output(args);
    const { config, jobs } = await loadLocalJobs(args, output);
    const { storage } = config;
    process.exitCode = await forEachJob(
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
          return readJobFiles(placed, async ({ layout }) => {
            await checkStorage(layout);
            return jobStatus(layout, streams, destinationsOf(config, job), { shareOf: (pid) => shareOf(args, pid) });
          });
        },
        document: (status) => status,
        print: (status) => {
          for (const line of statusLines(status, Date.now(), terminalWidth())) output.advice(line);
          return { code: 0 };
        },
      },
    );
  },
};

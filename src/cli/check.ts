import { configPositional, jobsOptions } from './arguments.js';
import type { Command } from './command.js';
import type { JobsArguments } from './load.js';
import { type CommonArguments, Output } from './output.js';

interface CheckArguments extends JobsArguments {
  contract: boolean;
}

/** `cdsync check`: tells whether a run would work, without running it. */
export const checkCommand: Command<CommonArguments, CheckArguments> = {
  builder: (parser) =>
    jobsOptions(configPositional(parser))
      .option('contract', {
        type: 'boolean',
        default: false,
        describe: 'compare columns and types with the last snapshot, by a page or two of each stream',
      })
      .epilogue(
        'Asks the service for one record of each stream, logs in to each destination, and writes nothing.\n' +
          'Exit codes: 0 all is well, 2 wrong configuration, 4 refused, 1 a stream cannot be read or breaks its contract, or a\n' +
          'destination cannot be loaded.',
      ),
  handler: async (args) => {
    process.exitCode = await check(args, new Output(args));
  },
};

async function check(args: CheckArguments, output: Output): Promise<number> {
  const { loadJobs } = await import('./load.js');
  const { lookAtJob } = await import('../engine/job-place.js');
  const { withEngine } = await import('../engine/open-engine.js');
  const { checkJob } = await import('../engine/plan/check-job.js');
  const { checkLines, exitCodeOfCheck, nextAfterCheck } = await import('../report/check.js');
  const { engineOptions } = await import('./engine-options.js');
  const { interruption } = await import('./interruption.js');
  const { workOnJobs } = await import('./work-on-jobs.js');
  const { config, jobs } = await loadJobs(args, output, { destinations: true, outcome: true });
  const stop = interruption(output);
  const options = engineOptions(stop, output, config.service);
  try {
    return await workOnJobs(
      { command: 'check', args, output, storage: config.storage, jobs, signal: stop.signal },
      {
        work: (job) =>
          lookAtJob({ config, job: job.name, need: args.contract ? 'published' : 'small', ...options }, (place) =>
            withEngine(config, { ...options, place }, (engine) => checkJob(engine, job, args)),
          ),
        document: (checked) => checked,
        tell: (checked) => {
          for (const line of checkLines(checked)) output.advice(line);
          if (checked.status === 'ok') return { code: 0 };
          return { code: exitCodeOfCheck(checked), next: nextAfterCheck(checked) };
        },
      },
    );
  } finally {
    stop.release();
  }
}

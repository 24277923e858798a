import { type Command, configPositional, type JobsArguments, jobsOptions, many } from './arguments.js';
import { type CommonArguments, Output } from './output.js';
import { terminalWidth } from './standard-streams.js';

interface PlanArguments extends JobsArguments {
  stream?: string[] | undefined;
}

/** `cdsync plan`: shows the requests, costs and changes of a run. */
export const planCommand: Command<CommonArguments, PlanArguments> = {
  builder: (parser) =>
    jobsOptions(configPositional(parser))
      .option('stream', many('only this stream; may be given again'))
      .epilogue(
        'Asks the service for totals and a page or two of each list, and compares the pages with the snapshot. Writes\n' +
          'nothing and needs no lock. Exit codes: 0 a run would work, 1 a stream could not be read or the disk is too small,\n' +
          '2 wrong configuration, 4 refused by the service.',
      ),
  handler: async (args) => {
    process.exitCode = await plan(args, new Output(args));
  },
};

async function plan(args: PlanArguments, output: Output): Promise<number> {
  const { loadJobs } = await import('./load.js');
  const { readJobFiles } = await import('../engine/job-files.js');
  const { jobContext, withEngine } = await import('../engine/open-engine.js');
  const { planJob } = await import('../engine/plan/plan-job.js');
  const { nextAfterPlan, planLines } = await import('../output/plan.js');
  const { inquiryOptions } = await import('./engine-options.js');
  const { interruption } = await import('./interruption.js');
  const { forEachJob } = await import('./for-each-job.js');
  const { config, jobs } = await loadJobs(args, output);
  const stop = interruption(output);
  const options = inquiryOptions(stop, output, config.service);
  const { storage } = config;
  return forEachJob(
    { command: 'plan', args, output, storage, jobs, only: { streams: args.stream }, stop },
    {
      work: (job, { streams }) =>
        readJobFiles({ config, job: job.name, need: 'published', ...options }, (place) =>
          withEngine(config, { ...options, place }, (engine) => planJob(jobContext(engine, job, { only: streams }))),
        ),
      document: (planned) => planned,
      print: (planned) => {
        for (const line of planLines(planned, terminalWidth())) output.advice(line);
        const failures = planned.streams.flatMap(({ error }) => error ?? []);
        if (planned.status === 'ok') return { code: 0 };
        const next = nextAfterPlan(planned);
        return { code: planned.disk.short !== 'refused' && failures.every(({ auth }) => auth) ? 4 : 1, next };
      },
    },
  );
}

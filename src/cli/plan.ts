import { configPositional, jobOption } from './arguments.js';
import type { Command } from './command.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output } from './output.js';

interface PlanArguments extends JobArguments {
  stream?: string[] | undefined;
}

/** `cdsync plan`: shows what a run would request, cost and change. */
export const planCommand: Command<CommonArguments, PlanArguments> = {
  builder: (parser) =>
    jobOption(configPositional(parser))
      .option('stream', {
        type: 'string',
        array: true,
        requiresArg: true,
        describe: 'only this stream; may be given again',
      })
      .epilogue(
        'Asks the service for totals and a page or two of each list, and compares the pages with the snapshot. Writes\n' +
          'nothing and needs no lock. Exit codes: 0 a run would work, 1 a stream could not be read or the disk is too small,\n' +
          '2 wrong configuration, 4 refused by the service.',
      ),
  handler: async (args) => {
    const { inJob, loadJob } = await import('./load.js');
    const { jobContext, withEngine } = await import('../engine/open-engine.js');
    const { planJob } = await import('../engine/plan/plan-job.js');
    const { planLines } = await import('../report/plan.js');
    const { engineOptions } = await import('./engine-options.js');
    const { interruption } = await import('./interruption.js');
    const { nextStep } = await import('./next-step.js');
    const output = new Output(args);
    const { config, job } = await loadJob(args, output);
    const stop = interruption(output);
    const options = engineOptions(stop, output, config.service);
    const { storage } = config;
    try {
      const plan = await inJob(args, { storage, job: job.name }, () =>
        withEngine(config, options, (engine) => planJob(jobContext(engine, job, { only: args.stream }))),
      );
      output.document(plan);
      for (const line of planLines(plan)) output.result(line);
      if (plan.status === 'ok') return;
      const failures = plan.streams.flatMap(({ error }) => error ?? []);
      const code = plan.disk.short !== 'refused' && failures.every(({ auth }) => auth) ? 4 : 1;
      process.exitCode = code;
      output.last(await nextStep({ code, storage, job: job.name, config: args.config }));
    } finally {
      stop.release();
    }
  },
};

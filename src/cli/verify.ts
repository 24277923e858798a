import { configPositional, jobOption } from './arguments.js';
import type { Command } from './command.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output } from './output.js';

/** `cdsync verify`: checks that all kept and published files are whole, and agree with each other. */
export const verifyCommand: Command<CommonArguments, JobArguments> = {
  builder: (parser) =>
    jobOption(configPositional(parser)).epilogue(
      'Reads every value of every Parquet file, with a reader other than DuckDB. Exit codes: 0 all is well, 1 something is not.',
    ),
  handler: async (args) => {
    const { inJob, loadLocalJob } = await import('./load.js');
    const { withStorage } = await import('../engine/open-engine.js');
    const { remedyOf, verifyJob } = await import('../engine/inspect/verify-job.js');
    const { JobLayout } = await import('../store/layout.js');
    const { verificationLines } = await import('../report/verification.js');
    const { nextStep } = await import('./next-step.js');
    const output = new Output(args);
    const { config, job } = await loadLocalJob(args);
    const { storage } = config;
    const result = await inJob(args, { storage, job: job.name }, () =>
      withStorage(config, (engine) => verifyJob(engine, job)),
    );
    output.document(result);
    for (const line of verificationLines(result)) output.result(line);
    if (result.status === 'ok') return;
    process.exitCode = 1;
    const remedy = remedyOf(new JobLayout(storage, job.name), result);
    output.last(await nextStep({ code: 1, remedy, storage, job: job.name, config: args.config }));
  },
};

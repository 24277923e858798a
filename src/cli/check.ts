import { configPositional, jobOption } from './arguments.js';
import type { Command } from './command.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output } from './output.js';

interface CheckArguments extends JobArguments {
  contract: boolean;
}

/** `cdsync check`: tells whether a run would work, without running it. */
export const checkCommand: Command<CommonArguments, CheckArguments> = {
  builder: (parser) =>
    jobOption(configPositional(parser))
      .option('contract', {
        type: 'boolean',
        default: false,
        describe: 'compare columns and types with the last snapshot, by a page or two of each stream',
      })
      .epilogue(
        'Asks the service for one record of each stream and writes nothing.\n' +
          'Exit codes: 0 all is well, 2 wrong configuration, 4 refused by the service, 1 a stream cannot be read or breaks its contract.',
      ),
  handler: async (args) => {
    const { loadJob } = await import('./load.js');
    const { withEngine } = await import('../engine/open-engine.js');
    const { checkJob } = await import('../engine/plan/check-job.js');
    const { checkLines } = await import('../report/check.js');
    const { engineOptions } = await import('./engine-options.js');
    const { interruption } = await import('./interruption.js');
    const { nextStep } = await import('./next-step.js');
    const output = new Output(args);
    const { config, job } = await loadJob(args, output, { outcome: true });
    const stop = interruption(output);
    try {
      const options = engineOptions(stop, output, config.service);
      const result = await withEngine(config, options, (engine) => checkJob(engine, job, args));
      output.document(result);
      for (const line of checkLines(result)) output.result(line);
      const failed = result.streams.filter(({ error }) => error !== null);
      const auth = failed.every(({ error }) => error?.auth === true);
      const code = result.status === 'ok' ? 0 : failed.length > 0 && auth ? 4 : 1;
      process.exitCode = code;
      if (code !== 0)
        output.last(await nextStep({ code, storage: config.storage, job: job.name, config: args.config }));
    } finally {
      stop.release();
    }
  },
};

import type { ArgumentsCamelCase } from 'yargs';
import type { RunContext } from '../engine/run-context.js';
import { jobOption } from './arguments.js';
import type { Command } from './command.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output, usageError } from './output.js';

interface DecideArguments extends JobArguments {
  words: string[];
  stream?: string[] | undefined;
}

function decision(
  command: 'approve' | 'discard',
  work: (context: RunContext, run: string, args: DecideArguments, output: Output) => Promise<void>,
): Command<CommonArguments, DecideArguments> {
  return {
    builder: (parser) =>
      jobOption(parser)
        .positional('words', {
          type: 'string',
          array: true,
          demandOption: true,
          describe: '[configuration file] run id',
        })
        .option('stream', {
          type: 'string',
          array: true,
          requiresArg: true,
          describe: 'only this stream; may be given again',
        }),
    handler: (args) => decide(command, args, work),
  };
}

async function decide(
  command: string,
  args: ArgumentsCamelCase<DecideArguments>,
  work: (context: RunContext, run: string, args: DecideArguments, output: Output) => Promise<void>,
): Promise<void> {
  const config = args.words.length > 1 ? args.words[0] : undefined;
  const run = args.words.at(-1);
  if (run === undefined || args.words.length > 2) {
    throw usageError('name one run', `for example: cdsync ${command} 20261103T021500Z-9f3a1c`);
  }
  const { inJob, loadJob } = await import('./load.js');
  const { jobContext, withEngine } = await import('../engine/open-engine.js');
  const { engineOptions } = await import('./engine-options.js');
  const { interruption } = await import('./interruption.js');
  const output = new Output(args);
  const jobArguments = { ...args, config };
  const loaded = await loadJob(jobArguments, output);
  const { job } = loaded;
  const stop = interruption(output);
  const options = engineOptions(stop, output, loaded.config.service);
  try {
    await inJob(jobArguments, { storage: loaded.config.storage, job: job.name }, () =>
      withEngine(loaded.config, options, (engine) =>
        work(jobContext(engine, job, { only: args.stream }), run, jobArguments, output),
      ),
    );
  } finally {
    stop.release();
  }
}

/** `cdsync approve`: commits what a guard has held. */
export const approveCommand = decision('approve', async (context, runId, args, output) => {
  const { approveRun } = await import('../engine/keep/decide-held.js');
  const { tellReport } = await import('./tell-report.js');
  const report = await approveRun(context, { runId, streams: args.stream });
  process.exitCode = await tellReport(report, args, output, context.config.storage);
});

/** `cdsync discard`: throws away what a guard has held. */
export const discardCommand = decision('discard', async (context, runId, args, output) => {
  const { discardHeld } = await import('../engine/keep/decide-held.js');
  const streams = await discardHeld(context, { runId, streams: args.stream });
  output.document({ run_id: runId, discarded: streams });
  output.result(`discarded of run ${runId}: ${streams.join(', ')}`);
});

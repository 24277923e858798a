import type { ArgumentsCamelCase } from 'yargs';
import type { ApproveChoices, RunContext } from '../engine/run-context.js';
import { type Command, configAndWords, flag, type JobArguments, jobOption, many, positionals } from './arguments.js';
import type { JobCommand } from './for-each-job.js';
import { type CommonArguments, Output, usageError } from './output.js';

interface DecideArguments extends JobArguments {
  run: string[];
  stream?: string[] | undefined;
  noPush?: boolean;
}

/** The effect of a decision, and how its result is shown. */
interface Decision<R> extends Pick<JobCommand<R>, 'print' | 'document'> {
  /** Of a job in a bucket: the files that are downloaded at once. */
  readonly need: 'decide' | 'small';
  decide(
    context: RunContext,
    choice: { runId: string; streams: readonly string[] | undefined },
    choices: ApproveChoices,
  ): Promise<R>;
}

/** @param parts that it needs of the job besides its streams */
function decision<R>(
  command: 'approve' | 'discard',
  parts: { readonly outcome?: boolean; readonly destinations?: boolean },
  begin: (output: Output) => Promise<Decision<R>>,
): Command<CommonArguments, DecideArguments> {
  return {
    builder: (parser) => {
      const decided = jobOption(parser)
        .positional('run', positionals('[configuration file] run id'))
        .option('stream', many('only this stream; may be given again'));
      return parts.destinations === true
        ? decided.option('no-push', flag('leave the destinations for a later run, or for cdsync push'))
        : decided;
    },
    handler: async (args) => {
      process.exitCode = await decide(command, { args, parts, begin });
    },
  };
}

async function decide<R>(
  command: string,
  {
    args,
    parts,
    begin,
  }: {
    readonly args: ArgumentsCamelCase<DecideArguments>;
    readonly parts: { readonly outcome?: boolean; readonly destinations?: boolean };
    readonly begin: (output: Output) => Promise<Decision<R>>;
  },
): Promise<number> {
  const { config, words } = configAndWords(args.run);
  const [runId] = words;
  if (runId === undefined || words.length > 1) {
    throw usageError(
      words.length > 1 ? 'one RUN at a time' : 'missing argument: RUN',
      `for example: cdsync ${command} 20261103T021500Z-9f3a1c`,
    );
  }
  const { loadJobs } = await import('./load.js');
  const { withJobFiles } = await import('../engine/job-files.js');
  const { jobContext, withEngine } = await import('../engine/open-engine.js');
  const { engineOptions } = await import('./engine-options.js');
  const { interruption } = await import('./interruption.js');
  const { forEachJob } = await import('./for-each-job.js');
  const output = new Output(args);
  const { config: file, job } = await loadJobs({ ...args, config }, output, {
    ...parts,
    destinations: parts.destinations === true && args.noPush !== true,
  });
  const { decide: work, need, ...shown } = await begin(output);
  const stop = interruption(output);
  const options = engineOptions(stop, output, file.service);
  const choice = { runId, streams: args.stream };
  return forEachJob(
    {
      command,
      args: { ...args, config, job: undefined, all: false },
      output,
      storage: file.storage,
      jobs: [job],
      stop,
    },
    {
      ...shown,
      work: () =>
        withJobFiles({ config: file, job: job.name, need, ...options }, (place) =>
          withEngine(file, { ...options, place }, (engine) =>
            work(jobContext(engine, job, { only: args.stream }), choice, { push: args.noPush !== true }),
          ),
        ),
    },
  );
}

/** `cdsync approve`: commits the held changes. */
export const approveCommand = decision('approve', { outcome: true, destinations: true }, async (output) => {
  const { approveRun } = await import('../engine/admin/review-held.js');
  const { approvalPrinter } = await import('./print-report.js');
  return { ...approvalPrinter(output), need: 'decide', decide: approveRun };
});

/** `cdsync discard`: discards the held changes. */
export const discardCommand = decision('discard', {}, async (output) => {
  const { discardHeld } = await import('../engine/admin/review-held.js');
  return {
    need: 'small',
    decide: async (context, choice) => ({ run_id: choice.runId, discarded: await discardHeld(context, choice) }),
    document: (done) => done,
    print: ({ run_id, discarded }: { run_id: string; discarded: string[] }) => {
      output.result(`discarded of run ${run_id}: ${discarded.join(', ')}`);
      return { code: 0 };
    },
  };
});

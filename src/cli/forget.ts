import { jobOption } from './arguments.js';
import type { Command } from './command.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output, usageError } from './output.js';

interface ForgetArguments extends JobArguments {
  words: string[];
}

/** `cdsync forget`: erases a person from everything that a job keeps of a stream. */
export const forgetCommand: Command<CommonArguments, ForgetArguments> = {
  builder: (parser) =>
    jobOption(parser)
      .positional('words', {
        type: 'string',
        array: true,
        demandOption: true,
        describe: '[configuration file] stream key...',
      })
      .example('$0 forget members p-0001', 'erase one profile')
      .example(`$0 forget vip '["seg-vip","p-0001"]'`, 'a key of several columns is a JSON list')
      .epilogue(
        'Delete the person at the service first: the next run reads what the service still has.\n' +
          'Exit codes: 0 erased, 1 a file still has a trace of it.',
      ),
  handler: async (args) => {
    const hasConfig = /\.(ya?ml|json)$/.test(args.words[0] ?? '');
    const [stream, ...keys] = hasConfig ? args.words.slice(1) : args.words;
    if (stream === undefined || keys.length === 0 || keys.includes(''))
      throw usageError('name a stream and at least one key', 'for example: cdsync forget members p-0001');
    const { inJob, loadLocalJob } = await import('./load.js');
    const { changeJob } = await import('../engine/job-place.js');
    const { withStorage } = await import('../engine/open-engine.js');
    const { forget } = await import('../engine/keep/forget-person.js');
    const { forgetLines } = await import('../report/forget.js');
    const jobArguments = { ...args, config: hasConfig ? args.words[0] : undefined };
    const output = new Output(args);
    const { config, job } = await loadLocalJob(jobArguments, output);
    const result = await inJob({ storage: config.storage, job: job.name }, () =>
      changeJob({ config, job: job.name, need: 'everything', notice: (line) => output.notice(line) }, (place) => {
        place.bucket?.collectAtOnce();
        return withStorage(config, (engine) => forget(engine, job, { stream, keys }), place);
      }),
    );
    output.document(result);
    for (const line of forgetLines(result)) output.advice(line);
    if (result.status === 'ok') return;
    process.exitCode = 1;
    const { nextStep } = await import('./next-step.js');
    output.last(await nextStep({ code: 1, storage: config.storage, job: job.name }));
  },
};

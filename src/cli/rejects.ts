import type { Argv } from 'yargs';
import { type Command, configPositional, type JobArguments, jobOption, many } from './arguments.js';
import { type CommonArguments, Output } from './output.js';

interface RejectsArguments extends JobArguments {
  destination?: string[] | undefined;
  stream?: string[] | undefined;
}

/** `cdsync rejects`: lists the values that destinations cannot hold. */
export const rejectsCommand: Command<CommonArguments, RejectsArguments> = {
  builder: (parser) =>
    jobOption(configPositional(parser))
      .option('destination', many('only this destination; may be given again'))
      .option('stream', many('only this stream; may be given again'))
      .epilogue(
        'Reads the storage folder alone. Exit codes: 0 also if there are some, 2 wrong configuration.',
      ) as unknown as Argv<RejectsArguments>,
  handler: async (args) => {
    const { inLocalJob } = await import('./load.js');
    const { listRejects } = await import('../engine/inspect/list-rejects.js');
    const { table } = await import('../output/table.js');
    const output = new Output(args);
    const choice = { destinations: args.destination, streams: args.stream };
    const { job, rejects } = await inLocalJob(
      args,
      output,
      { need: 'small' },
      async ({ job, layout, destinations }) => ({
        job: job.name,
        rejects: await listRejects(layout, destinations, choice),
      }),
    );
    output.document({ job, rejects });
    if (rejects.length === 0)
      return output.result(
        'every value that was delivered is at its destinations; records that never became rows: cdsync.rejects',
      );
    const rows = rejects.map(({ destination, stream, key, column, reason, run_id }) => [
      ...[destination, stream, key ?? '(no key)', column ?? '(row)', reason, run_id],
    ]);
    for (const line of table(['destination', 'stream', 'key', 'column', 'reason', 'since run'], rows))
      output.result(line);
  },
};

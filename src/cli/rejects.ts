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
    const { destinationsOf, inJob, loadLocalJobs } = await import('./load.js');
    const { readJobFiles } = await import('../engine/job-files.js');
    const { listRejects } = await import('../engine/inspect/list-rejects.js');
    const { table } = await import('../output/table.js');
    const output = new Output(args);
    const { config, job } = await loadLocalJobs(args, output);
    const rejects = await inJob({ storage: config.storage, job: job.name }, () =>
      readJobFiles({ config, job: job.name, need: 'small', notice: (line) => output.notice(line) }, ({ layout }) =>
        listRejects(layout, destinationsOf(config, job), { destinations: args.destination, streams: args.stream }),
      ),
    );
    output.document({ job: job.name, rejects });
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

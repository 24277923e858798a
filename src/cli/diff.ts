import { jobOption } from './arguments.js';
import type { Command } from './command.js';
import type { JobArguments } from './load.js';
import { type CommonArguments, Output, usageError } from './output.js';

interface DiffArguments extends JobArguments {
  words: string[];
  from?: string | undefined;
  to?: string | undefined;
  column?: string | undefined;
  limit: number;
  csv: boolean;
}

/** `cdsync diff`: what differs between two snapshots of a stream. */
export const diffCommand: Command<CommonArguments, DiffArguments> = {
  builder: (parser) =>
    jobOption(parser)
      .positional('words', { type: 'string', array: true, demandOption: true, describe: '[configuration file] stream' })
      .options({
        from: {
          type: 'string',
          requiresArg: true,
          describe: 'a run or a time [default: the snapshot before the last]',
        },
        to: { type: 'string', requiresArg: true, describe: 'a run or a time [default: the last snapshot]' },
        column: { type: 'string', requiresArg: true, describe: 'only rows in which this column differs' },
        limit: { type: 'number', requiresArg: true, default: 20, describe: 'rows that are listed' },
        csv: { type: 'boolean', default: false, describe: 'the rows as comma-separated values' },
      })
      .example('$0 diff members --from 2026-11-01', 'what November has changed so far')
      .example('$0 diff members --column tier --show-values', 'who went from which tier to which'),
  handler: async (args) => {
    const config = args.words.length > 1 ? args.words[0] : undefined;
    const stream = args.words.at(-1);
    if (stream === undefined || args.words.length > 2)
      throw usageError('name one stream', 'for example: cdsync diff members');
    if (!Number.isInteger(args.limit) || args.limit < 0)
      throw usageError('--limit must be a whole number', 'for example: --limit 100');
    const { loadLocalJob } = await import('./load.js');
    const { JobLayout } = await import('../store/layout.js');
    const { openPublished } = await import('../store/published.js');
    const report = await import('../report/difference.js');
    const { config: file, job } = await loadLocalJob({ ...args, config });
    const published = await openPublished(new JobLayout(file.storage, job.name), file.resources);
    const output = new Output(args);
    try {
      const queried = {
        rows: async (sql: string) =>
          (await (await published.query(sql)).getRowObjectsJson()) as Record<string, unknown>[],
      };
      const { from, to, column, limit, showValues } = args;
      const difference = await report.differenceOf(queried, { stream, from, to, column, limit, showValues });
      output.document(difference);
      if (args.csv) for (const line of report.differenceCsv(difference)) output.resultData(line);
      else for (const line of report.differenceLines(difference)) output.result(line);
    } finally {
      published.close();
    }
  },
};

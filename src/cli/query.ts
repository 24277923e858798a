import type { Argv } from 'yargs';
import type { ResourceOptions } from '../config/config.js';
import { interrupted } from '../core/errors.js';
import { type CsvFormulas, csvFormulas, type RowFormat, rowFormats } from '../output/row-formats.js';
import { vendorLibrary } from '../sdk/errors.js';
import type { JobLayout } from '../storage/layout.js';
import { type Command, configAndWords, flag, type JobArguments, jobOption, oneOf, positionals } from './arguments.js';
import { type CommonArguments, Output, usageError } from './output.js';
import { ClosedPipe, terminalWidth, writeBytes, writeRows } from './standard-streams.js';

interface QueryArguments extends JobArguments {
  sql: string[];
  format: RowFormat;
  allowFiles: boolean;
  csvFormulas: CsvFormulas;
}

/** `cdsync query`: runs SQL over the published snapshot. */
export const queryCommand: Command<CommonArguments, QueryArguments> = {
  builder: (parser) =>
    jobOption(parser)
      .positional('sql', positionals('[configuration file] SQL'))
      .option('format', {
        choices: rowFormats,
        default: 'table' as const,
        describe: 'how rows are printed; a table fits the width of the terminal',
      })
      .option('allow-files', flag('SQL may also read and write other files; only for SQL that you trust'))
      .option('csv-formulas', {
        default: 'escape',
        ...oneOf('csv-formulas', csvFormulas, 'text in CSV that a spreadsheet program would run'),
      })
      .example('$0 query "select tier, count(*) from members group by tier"', 'count the rows of a stream')
      .example(
        '$0 query jobs/nightly.yaml "from members limit 5" --format json',
        'name the configuration first',
      ) as unknown as Argv<QueryArguments>,
  handler: async (args) => {
    const { config, words } = configAndWords(args.sql);
    const sql = words.join(' ');
    if (sql.trim() === '')
      throw usageError('there is no SQL to run', 'for example: cdsync query "from members limit 5"');
    if (args.json && args.format !== 'table' && args.format !== 'json')
      throw usageError(`--json and --format ${args.format} are two formats`, 'leave one of them out');
    if (args.format === 'arrow' && process.stdout.isTTY)
      throw usageError(
        '--format arrow writes bytes, which no terminal can show',
        'write them to a file: > rows.arrows',
      );
    await query({ ...args, config }, sql);
  },
};

async function query(args: QueryArguments, sql: string): Promise<void> {
  const { inLocalJob } = await import('./load.js');
  const output = new Output(args);
  const nextAfter = args.sql.length > (args.config === undefined ? 1 : 2) ? afterSplitSql : {};
  await inLocalJob(args, output, { need: 'published', nextAfter }, ({ config: { resources }, layout }) =>
    printPublished({ ...args, layout, resources }, sql, output),
  );
}

const quoteSql =
  'put the whole SQL in quotes, or the shell splits it and replaces *: cdsync query "select * from members"';

/** What to do if SQL without quotes is refused. */
const afterSplitSql = { sql_failed: quoteSql, sql_not_allowed: quoteSql };

async function printPublished(
  args: QueryArguments & { layout: JobLayout; resources: ResourceOptions },
  sql: string,
  output: Output,
): Promise<void> {
  const { openPublished } = await import('../snapshot/published.js');
  const { closeAtEnd, interruption } = await import('./interruption.js');
  const { allowFiles, showValues: showsValues, layout, resources } = args;
  const published = await openPublished(layout, { ...resources, allowFiles, showsValues });
  const stop = interruption(output);
  stop.signal.addEventListener('abort', () => published.interrupt());
  try {
    const format = args.json ? 'json' : args.format;
    if (format === 'arrow') {
      const { writeArrow } = await vendorLibrary('apache-arrow', () => import('../output/arrow-stream.js'));
      await writeArrow(await published.rows(sql), writeBytes);
    } else {
      const { printRows } = await import('../output/rows.js');
      const write = (text: string) => writeRows(text, format === 'json');
      const options = { format, csvFormulas: args.csvFormulas, width: terminalWidth() };
      await printRows(await published.rows(sql), options, write);
    }
    output.detail(`read ${published.path}`);
  } catch (error) {
    if (stop.signal.aborted) throw interrupted(error);
    if (!(error instanceof ClosedPipe)) throw error;
  } finally {
    stop.release();
    // Until DuckDB has built the value, the process would not end, and take more memory.
    if (published.isStuck()) closeAtEnd(async () => process.exit(process.exitCode));
    published.close();
  }
}

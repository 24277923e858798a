import { join } from 'node:path';
import type { JobConfig, ResourceOptions } from '../config/config.js';
import type { SchemaChange } from '../core/schema-change.js';
import type { StreamDifference } from '../output/difference.js';
import type { JobLayout } from '../storage/layout.js';
import {
  type Command,
  configAndWords,
  flag,
  type JobArguments,
  jobOption,
  positionals,
  textOption,
  wholeNumber,
} from './arguments.js';
import { type CommonArguments, Output, usageError } from './output.js';

interface DiffArguments extends JobArguments {
  stream: string[];
  from?: string | undefined;
  to?: string | undefined;
  column?: string | undefined;
  limit: number;
  csv: boolean;
  held?: string | undefined;
}

/** `cdsync diff`: what differs between two snapshots of a stream. */
export const diffCommand: Command<CommonArguments, DiffArguments> = {
  builder: (parser) =>
    jobOption(parser)
      .positional('stream', positionals('[configuration file] stream'))
      .options({
        from: textOption('a run or a time [default: the snapshot before --to]'),
        to: textOption('a run or a time [default: the last snapshot]'),
        column: textOption('only rows in which this column differs'),
        limit: { ...wholeNumber('limit', 'rows that are listed', [0]), default: 20 },
        held: textOption('show the held changes of this run'),
        csv: flag('the rows as comma-separated values'),
      })
      .example('$0 diff members --from 2026-11-01', 'what November has changed so far')
      .example('$0 diff --held 20261103T021500Z-9f3a1c members', 'the held changes, before you approve them')
      .example('$0 diff members --column tier --show-values', 'who went from which tier to which'),
  handler: async (args) => {
    const { config, words } = configAndWords(args.stream);
    const [stream] = words;
    if (stream === undefined || words.length > 1)
      throw usageError(
        words.length > 1 ? 'one STREAM at a time' : 'missing argument: STREAM',
        'for example: cdsync diff members',
      );
    if (args.json && args.csv) throw usageError('--json and --csv are two formats', 'leave one of them out');
    if (args.held !== undefined && (args.from ?? args.to) !== undefined)
      throw usageError('--held compares with the last snapshot', 'leave out --from and --to');
    await diff({ ...args, config }, stream);
  },
};

async function diff(args: DiffArguments, stream: string): Promise<void> {
  const { inLocalJob } = await import('./load.js');
  const { differenceCsv, differenceLines } = await import('../output/difference.js');
  const output = new Output(args);
  const need = args.held === undefined ? 'published' : 'small';
  const difference = await inLocalJob(args, output, { need }, ({ config, job, layout }) => {
    const task: DiffTask = { ...args, stream, layout, job, resources: config.resources };
    return args.held === undefined ? publishedDifference(task) : heldDifference(task, args.held);
  });
  output.document(difference);
  if (args.csv) {
    for (const line of differenceCsv(difference)) output.resultData(line);
    const { inserted, updated, deleted, rows } = difference;
    const total = inserted + updated + deleted;
    if (rows.length < total)
      output.notice(`warning: only the first ${rows.length} of ${total} rows: --limit ${total} has all`);
  } else for (const line of differenceLines(difference, args.column)) output.result(line);
}

interface DiffTask extends Pick<DiffArguments, 'from' | 'to' | 'column' | 'limit' | 'showValues'> {
  readonly stream: string;
  readonly layout: JobLayout;
  readonly job: JobConfig;
  readonly resources: ResourceOptions;
}

async function publishedDifference({ layout, resources, ...task }: DiffTask): Promise<StreamDifference> {
  const { openPublished } = await import('../snapshot/published.js');
  const { differenceOf } = await import('../output/difference.js');
  const published = await openPublished(layout, resources);
  try {
    const { stream, from, to, column, limit, showValues } = task;
    return await differenceOf(
      { rows: (sql) => published.jsonRows(sql) },
      { stream, from, to, column, limit, showValues },
      await schemaReader(layout, stream),
    );
  } finally {
    published.close();
  }
}

/** Reads from the reports of runs how they changed the columns of a stream. */
async function schemaReader(layout: JobLayout, stream: string) {
  const { readReport } = await import('../storage/reports.js');
  return async (runId: string): Promise<readonly SchemaChange[]> => {
    const report = await readReport(layout, runId);
    return report?.jobs[0]?.streams.find(({ name }) => name === stream)?.schema_changes ?? [];
  };
}

async function heldDifference({ layout, resources, job, ...task }: DiffTask, runId: string): Promise<StreamDifference> {
  const { attachPublished, heldFiles } = await import('../engine/admin/held-files.js');
  const { heldDifferenceOf } = await import('../output/difference.js');
  const { Database } = await import('../storage/duckdb.js');
  const { temporaryName } = await import('../core/durable.js');
  const { stream, column, limit, showValues } = task;
  const streams = job.streams.map(({ name }) => name);
  const files = await heldFiles(layout, streams, { runId, stream });
  const database = await Database.open(resources);
  await database.spillTo(temporaryName(join(layout.run(runId), 'diff')));
  const session = await database.connect();
  try {
    if (files.before?.includes('published.')) await attachPublished(session, layout);
    const rows = async (sql: string) => (await session.jsonRows(sql)) as Record<string, unknown>[];
    return await heldDifferenceOf(
      { rows },
      files,
      { stream, column, limit, showValues },
      await schemaReader(layout, stream),
    );
  } finally {
    session.close();
    database.close();
  }
}

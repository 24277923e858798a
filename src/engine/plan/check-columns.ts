import type { StreamConfig } from '../../config/config.js';
import { asCdsyncError } from '../../core/errors.js';
import { formatCounted } from '../../core/quantities.js';
import { readFeed } from '../../snapshot/feed.js';
import type { Session } from '../../storage/duckdb.js';
import { openStream } from '../run/open-stream.js';
import { namesColumns, takenNames, unknownColumns } from '../run/unknown-columns.js';
import type { RunContext } from '../run-context.js';
import { sampleStream } from './sample-stream.js';

async function warningsOf(context: RunContext, config: StreamConfig, session: Session): Promise<string[]> {
  const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
  const opened = await openStream(context, { config, meter, previous: undefined, session });
  const { source, rules } = opened;
  if (source === undefined) return [];
  const sample = await sampleStream(context, {
    opened,
    source,
    previous: undefined,
    columns: undefined,
    pageSize: config.reads.pageSize ?? context.config.service.pageSize,
    filter: config.reads.filter,
    hashVersion: '',
    meter,
    session,
  });
  if (sample === undefined || sample.records === 0) return [];
  const published = (await readFeed(context.layout, config.name).catch(() => undefined))?.columns ?? [];
  const columns = [...sample.columns, ...published];
  const scope = ` in a sample of ${formatCounted(sample.records, 'record')}`;
  const unknown = unknownColumns(config, rules, { columns, leftOut: sample.leftOut, scope });
  const taken = takenNames(rules, sample);
  return [
    ...unknown.map(({ message, code }) => `${config.name}: ${message} [${code}]`),
    ...taken.map(
      ({ column, name, taken: other }) =>
        `${config.name}: columns: ${column} cannot be renamed to ${name}: ${other} has it [column_name_taken]`,
    ),
  ];
}

/**
 * Looks in a page or two of each stream for the columns that its rules, guards and partition name. It skips streams that cannot be
 * read: the rest of the check reports them. Writes nothing.
 * @returns one line for each name that no column has
 */
export async function checkColumns(given: RunContext, session: Session): Promise<string[]> {
  const context = { ...given, full: true, notice: () => undefined };
  const lines: string[] = [];
  for (const config of context.job.streams) {
    if (!namesColumns(config)) continue;
    try {
      lines.push(...(await warningsOf(context, config, session)));
    } catch (error) {
      if (asCdsyncError(error).kind === 'interrupted') throw error;
    }
  }
  return lines;
}

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ColumnSet } from '../columns/columns.js';
import type { DeliveredColumnRule } from '../config/config.js';
import { type DestinationConfig, tableName } from '../config/destination-config.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { nearest } from '../core/suggestions.js';
import type { Connector, DestinationCheck, DestinationContext } from '../sdk/destination.js';
import { describeTables } from '../sdk/opened-destination.js';
import { type Feed, readFeed } from '../snapshot/feed.js';
import type { JobLayout } from '../storage/layout.js';
import { guardConnector } from './connector-guard.js';
import { type DeliveryContext, destinationContext } from './delivery.js';
import { assertTemplateColumns } from './records/template-columns.js';
import { TargetNames } from './target-names.js';

type Columns = Pick<Feed, 'columns' | 'changes' | 'rows'>;

/** The names of a stream's columns, and the columns that their fields are now called by. */
function namesOf({ columns, changes }: Columns): { names: Set<string>; renamed: Map<string, string> } {
  const present = ColumnSet.restore(columns).list;
  // A column that a rule of the stream now drops was one of its columns: a rule for it hides nothing, but is no mistake.
  const earlier = changes.flatMap((commit) => ColumnSet.restore(commit.columns ?? []).list);
  const fields = new Map(earlier.concat(present).map(({ place, field, name }) => [`${place} ${field}`, name]));
  const isCalledSo = ({ place, field, name }: (typeof present)[number]) => fields.get(`${place} ${field}`) === name;
  const names = new Set([...earlier.filter(isCalledSo), ...present].map(({ name }) => name));
  return { names, renamed: new Map(present.map(({ field, name }) => [field, name])) };
}

/**
 * The rules of a destination that match no column: values that they must hide would be delivered in clear.
 * @param streams all streams of the destination; undefined for one that is not published yet
 * @returns their columns, and the nearest column that there is
 */
export function unknownRules(
  streams: readonly (Columns | undefined)[],
  rules: ReadonlyMap<string, DeliveredColumnRule>,
): { column: string; nearest: string | undefined }[] {
  const streamNames = streams.filter((stream) => stream !== undefined).map(namesOf);
  // Before its first rows, the columns of a stream are not known.
  const isComplete = streams.every((stream) => stream !== undefined && stream.rows > 0);
  const names = [...new Set(streamNames.flatMap(({ names: ownNames }) => [...ownNames]))];
  return [...rules.keys()].flatMap((column) => {
    if (column === '*' || names.includes(column)) return [];
    const isMistaken =
      streamNames.some(({ renamed }) => renamed.has(column)) ||
      names.some((name) => name.toLowerCase() === column.toLowerCase());
    if (!isComplete && !isMistaken) return [];
    const renamed = streamNames.map(({ renamed: renames }) => renames.get(column)).find((name) => name !== undefined);
    return [{ column, nearest: renamed ?? nearest(column, names, 1)[0] }];
  });
}

/**
 * Call it before anything is sent to a destination.
 * @throws {CdsyncError} `template_invalid` if a template of the destination names a column that a stream of it does not have
 */
async function checkTemplates(layout: JobLayout, destination: DestinationConfig): Promise<void> {
  if (destination.connector.checkColumns === undefined) return;
  for (const stream of destination.streams) {
    const feed = await readFeed(layout, stream);
    // Before its first rows, the columns of a stream are not known.
    if (feed !== undefined && feed.rows > 0) assertTemplateColumns(destination, feed);
  }
}

/**
 * Call it before anything is sent to a destination.
 * @throws {CdsyncError} `column_unknown` if `columns` of the destination names a column that none of its streams ever had
 * @throws what {@link checkTemplates} throws
 */
export async function checkRules(layout: JobLayout, destination: DestinationConfig): Promise<void> {
  await checkTemplates(layout, destination);
  const { name, columns, streams } = destination;
  if (columns.size === 0) return;
  const feeds = await Promise.all(streams.map((stream) => readFeed(layout, stream)));
  const [first, ...others] = unknownRules(feeds, columns);
  if (first === undefined) return;
  const all = [first, ...others].map(({ column }) => `"${column}"`).join(', ');
  throw new CdsyncError(
    `\`columns\` or \`select\` of destination "${name}" names ${all}: no stream there has such a column`,
    {
      code: 'column_unknown',
      hint:
        first.nearest === undefined
          ? 'correct the name, or remove it; nothing was sent'
          : `did you mean "${first.nearest}"? Nothing was sent`,
    },
  );
}

/** The result of trying a destination. */
export interface CheckTarget extends Omit<DestinationCheck, 'reached'> {
  /** Null if it was not reached. */
  readonly reached: string | null;
  readonly error: CdsyncError | undefined;
}

/** For connectors without a check of their own: opens the destination, and describes its tables. */
async function open(
  connector: Connector,
  context: DestinationContext,
  tables: readonly string[],
): Promise<DestinationCheck> {
  if (connector.kind !== 'tables') {
    await (await connector.open(context)).close();
    return { reached: connector.name, lacks: [], untried: 'cannot be tested before the first delivery' };
  }
  await describeTables(connector.open(context), tables, connector);
  return { reached: connector.name, lacks: [], untried: 'writing is tested by the first load' };
}

function tablesOf({ connector, streams, table }: DestinationConfig, job: string): string[] {
  if (connector.kind !== 'tables') return [];
  // As a delivery does, each stream chooses alone.
  const names = () => new TargetNames(connector.capabilities.identifiers);
  return streams.map((stream) => names().give(tableName(table, job, stream)));
}

/** Connects to a destination, and looks for the rights that a load needs. Writes nothing; does not throw if the destination fails. */
export async function checkDestination(
  context: Pick<DeliveryContext, 'layout' | 'service' | 'signal' | 'notice'>,
  destination: DestinationConfig,
): Promise<CheckTarget> {
  const connector = guardConnector(destination.connector, destination.options);
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-check-'));
  const opened = { ...destinationContext(context, destination, folder), isReadOnly: true };
  const tables = tablesOf(destination, context.layout.job);
  try {
    await checkTemplates(context.layout, destination);
    const check = await (connector.check?.(opened, tables) ?? open(connector, opened, tables));
    return { ...check, error: undefined };
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    if (error.kind === 'interrupted') throw error;
    return { reached: null, lacks: [], error };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

import { ColumnSet } from '../columns/columns.js';
import type { ColumnRule, DestinationConfig } from '../config/config.js';
import { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/suggestions.js';
import { type Feed, readFeed } from '../snapshot/feed.js';
import type { JobLayout } from '../storage/layout.js';

/** A rule for a column that no stream of the destination has. */
export interface UnknownRule {
  readonly column: string;
  /** The column that may be meant. */
  readonly nearest: string | undefined;
}

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
 * The rules of a destination that match no column: they would deliver in clear what they must hide.
 * @param streams all streams of the destination; undefined for one that is not published yet
 */
export function unknownRules(
  streams: readonly (Columns | undefined)[],
  rules: ReadonlyMap<string, ColumnRule>,
): UnknownRule[] {
  const known = streams.filter((stream) => stream !== undefined).map(namesOf);
  // Without its first rows, nobody knows which columns a stream has.
  const isComplete = streams.every((stream) => stream !== undefined && stream.rows > 0);
  const names = [...new Set(known.flatMap(({ names: own }) => [...own]))];
  return [...rules.keys()].flatMap((column) => {
    if (column === '*' || names.includes(column)) return [];
    const isMistaken = known.some(({ renamed }) => renamed.has(column)) || inOtherCase(column, names);
    if (!isComplete && !isMistaken) return [];
    const renamed = known.map(({ renamed: own }) => own.get(column)).find((name) => name !== undefined);
    return [{ column, nearest: renamed ?? nearest(column, names, 1)[0] }];
  });
}

function inOtherCase(column: string, names: readonly string[]): boolean {
  return names.some((name) => name.toLowerCase() === column.toLowerCase());
}

/**
 * Call it before anything is sent to a destination.
 * @throws {CdsyncError} `column_unknown` if `columns` of the destination names a column that none of its streams ever had
 */
export async function checkRules(
  layout: JobLayout,
  { name, columns, streams }: Pick<DestinationConfig, 'name' | 'columns' | 'streams'>,
): Promise<void> {
  if (columns.size === 0) return;
  const feeds = await Promise.all(streams.map((stream) => readFeed(layout, stream)));
  const [first, ...others] = unknownRules(feeds, columns);
  if (first === undefined) return;
  const all = [first, ...others].map(({ column }) => `"${column}"`).join(', ');
  throw new CdsyncError(`\`columns\` of destination "${name}" names ${all}: no stream there has such a column`, {
    code: 'column_unknown',
    hint:
      first.nearest === undefined
        ? 'correct the name, or remove the rule; nothing was sent'
        : `did you mean "${first.nearest}"? Nothing was sent`,
  });
}

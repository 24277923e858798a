import type { LoadLine, StateKey, StateRow } from '../../src/sdk/index.js';
import { currentSnapshotId, type TableMetadata } from './table-metadata.js';

/** Names of destinations and streams have no dots: `cdsync.record.<destination>.<stream>`, then `.2`, `.3` for what follows. */
const recordPrefix = 'cdsync.record.';

/** Catalogs on Hive keep at most 4,000 bytes of a property. */
const maxValueLength = 3900;

type Properties = NonNullable<TableMetadata['properties']>;

function nameOf({ destination, stream }: Pick<StateKey, 'destination' | 'stream'>): string {
  return `${recordPrefix}${destination}.${stream}`;
}

/** The text of a record's property, in ASCII: a piece has as many bytes as characters, and ends within no character. */
function textOf(version: number, record: string): string {
  const text = JSON.stringify({ version, record: JSON.parse(record) });
  return text.replace(/[\u0080-\uffff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The properties that hold a record. */
export function recordProperties(key: StateKey, version: number, record: string): Properties {
  const text = textOf(version, record);
  const pieces: [string, string][] = [];
  for (let from = 0; from < text.length; from += maxValueLength) {
    const number = pieces.length === 0 ? '' : `.${pieces.length + 1}`;
    pieces.push([`${nameOf(key)}${number}`, text.slice(from, from + maxValueLength)]);
  }
  return Object.fromEntries(pieces);
}

/** The updates that replace a record, and remove the properties that it takes the place of. */
export function recordUpdates(
  { properties = {} }: TableMetadata,
  row: StateRow,
  supersedes: readonly StateKey[] = [],
): readonly Readonly<Record<string, unknown>>[] {
  const set = recordProperties(row, row.version, row.record);
  const gone = new Set([row, ...supersedes].map((key) => nameOf(key)));
  const removals = Object.keys(properties).filter(
    (name) => set[name] === undefined && (gone.has(name) || gone.has(name.replace(/\.\d+$/, ''))),
  );
  const removed = removals.length === 0 ? [] : [{ action: 'remove-properties', removals }];
  return [{ action: 'set-properties', updates: set }, ...removed];
}

/** All records of a table. The text of a damaged one is returned as it is. */
export function recordsOf({ properties = {} }: TableMetadata, table: string): StateRow[] {
  return Object.keys(properties).flatMap((name) => {
    const [destination, stream, piece] = name.startsWith(recordPrefix)
      ? name.slice(recordPrefix.length).split('.')
      : [];
    if (destination === undefined || stream === undefined || piece !== undefined) return [];
    let text = '';
    for (let number = 1; ; number += 1) {
      const next = properties[number === 1 ? name : `${name}.${number}`];
      if (next === undefined) break;
      text += next;
    }
    return [{ destination, stream, table, ...parsed(text) }];
  });
}

function parsed(text: string): Pick<StateRow, 'version' | 'record'> {
  try {
    const { version, record } = JSON.parse(text) as { readonly version: number; readonly record: unknown };
    return { version, record: JSON.stringify(record) };
  } catch {
    return { version: 0, record: text };
  }
}

/** The line about a load, for the summary of its snapshot: with `cdsync.` before each name. */
export function summaryOf(line: LoadLine): Record<string, string> {
  return Object.fromEntries(
    Object.entries(line)
      .filter(([, value]) => value !== '')
      .map(([name, value]) => [`cdsync.${name.replaceAll('_', '-')}`, String(value)]),
  );
}

/**
 * The load that the table is of, by the summaries of its snapshots. Compaction (`replace`) changes no rows. If others have changed
 * rows since, the text is another one, of the same generation.
 * @returns null if no snapshot says it; undefined if it cannot be known, because older snapshots have expired
 */
export function stampOf(metadata: TableMetadata): string | null | undefined {
  const snapshots = new Map(metadata.snapshots?.map((snapshot) => [String(snapshot['snapshot-id']), snapshot]));
  let isChanged = false;
  for (let id = currentSnapshotId(metadata); id !== null; ) {
    const snapshot = snapshots.get(String(id));
    if (snapshot === undefined) return isChanged ? null : undefined;
    const { operation, 'cdsync.load': load } = snapshot.summary;
    if (load !== undefined) return isChanged ? `${Number.parseInt(load, 10)}:changed` : load;
    isChanged ||= operation !== 'replace';
    id = snapshot['parent-snapshot-id'] ?? null;
  }
  return null;
}

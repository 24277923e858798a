import { ColumnSet, type StoredColumn } from '../columns/columns.js';
import { quoteIdentifier, sqlText, sqlTexts } from '../core/sql.js';
import { comparable, rangesOf, storedRowBytes } from '../snapshot/large-rows.js';

/** A published snapshot, queried with SQL. */
export interface Queried {
  rows(sql: string): Promise<Record<string, unknown>[]>;
}

export interface StoredState {
  readonly key: string[];
  readonly columns: StoredColumn[];
  readonly large_texts?: true;
}

/** SQL for the rows of two snapshots. */
export interface Sides {
  readonly from: string;
  readonly to: string;
}

/** Two moments of a stream; null before its first snapshot. */
interface Span {
  readonly stream: string;
  readonly from: string | null;
  readonly to: string;
}

/** SQL for the rows of a stream at two moments. @param shown SQL for what to select of a row */
export function sidesOf({ stream, from, to }: Span, shown: string): Sides {
  const rowsAt = (at: string | null) =>
    at === null
      ? `(SELECT ${shown} FROM ${quoteIdentifier(stream)} WHERE false)`
      : `(SELECT ${shown} FROM ${quoteIdentifier(`${stream}_as_of`)}(${sqlText(at)}))`;
  return { from: rowsAt(from), to: rowsAt(to) };
}

/** SQL for whether a row has one of the keys, as a difference shows them: the texts of their columns, with spaces. */
export function hasKeys(key: readonly string[], keys: readonly string[]): string {
  const texts = key.map((name) => `${quoteIdentifier(name)}::VARCHAR`).join(', ');
  return `concat_ws(' ', ${texts}) IN (SELECT unnest(${sqlTexts(keys)}::VARCHAR[]))`;
}

/**
 * The rows of a stream with large texts that may differ, as temporary tables. The views of its past hold each version of each text in
 * memory: here they give keys and runs, and the tables give the rows, a few at a time.
 * @param keys texts of keys: only their rows, with all values. Left out, all rows that may differ, with hashes of texts
 */
export async function largeSides(
  published: Queried,
  state: StoredState,
  span: Span,
  keys?: readonly string[],
): Promise<Sides> {
  const { key, columns } = state;
  const { stream } = span;
  const keyNames = key.map(quoteIdentifier);
  const id = [...keyNames, '_run_id'].join(', ');
  const versions = sidesOf(span, id);
  const only = keys === undefined ? 'true' : hasKeys(key, keys);
  const values = ColumnSet.restore(columns)
    .list.map(({ name, type }) => {
      const value = quoteIdentifier(name);
      return `${keys === undefined && !key.includes(name) ? comparable(type, value) : value} AS ${value}`;
    })
    .join(', ');
  const changes = quoteIdentifier(`${stream}__changes`);
  const isUnchanged = `(${keyNames.join(', ')}) NOT IN (SELECT (${keyNames.join(', ')}) FROM ${changes})`;
  const sources = [
    [changes, 'true'],
    [`private.${quoteIdentifier(`before_${stream}`)}`, 'true'],
    [quoteIdentifier(stream), isUnchanged],
  ] as const;
  // A row of the same run is the same in both.
  const wanted = (['from', 'to'] as const).map((side) => {
    const other = versions[side === 'from' ? 'to' : 'from'];
    return `SELECT *, '${side}' AS _cdsync_side FROM (SELECT ${id} FROM ${versions[side]} WHERE ${only} EXCEPT SELECT ${id} FROM ${other})`;
  });
  await published.rows(`CREATE OR REPLACE TEMP TABLE _cdsync_wanted AS ${wanted.join(' UNION ALL ')}`);
  const parts: string[] = [];
  for (const [table, condition] of sources) {
    const where = `${condition} AND (${id}) IN (SELECT (${id}) FROM _cdsync_wanted)`;
    const rowBytes = await storedRowBytes(published, table, state);
    const ranges = await rangesOf(published, { table, rowBytes, where });
    for (const range of ranges) {
      const part = `_cdsync_part_${parts.length}`;
      // One statement would keep the texts of all ranges until its end.
      await published.rows(
        `CREATE OR REPLACE TEMP TABLE ${part} AS SELECT _cdsync_side, ${values}
         FROM (SELECT * FROM ${table} WHERE ${range} AND ${condition}) JOIN _cdsync_wanted USING (${id})`,
      );
      parts.push(`FROM ${part}`);
    }
  }
  const rowsOf = (side: string) =>
    `(SELECT * EXCLUDE (_cdsync_side) FROM (${parts.join(' UNION ALL ')}) WHERE _cdsync_side = '${side}')`;
  return { from: rowsOf('from'), to: rowsOf('to') };
}

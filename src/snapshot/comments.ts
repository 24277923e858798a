import { columnPath, type StoredColumn } from '../columns/columns.js';
import { describeMask } from '../columns/masked-value.js';
import { wideColumns } from '../columns/row-hash.js';
import { textFormatOf } from '../columns/text-format.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { lastChangesKeys } from './history-views.js';
import type { SnapshotStore } from './snapshot-store.js';
import { beforeTable, internalComment, keysTable, storeTable } from './store-tables.js';
import type { StreamState } from './stream-state.js';

/*
 * Comments on published tables and columns, as DuckDB's clients show them. Each is a change of the table's definition, and DuckDB
 * copies that whole for each: 500 columns take a quarter of a second, 5,000 would take half a minute. So tables with many columns have
 * a comment of their own only; `cdsync.columns` has all of them. So have all tables of a commit that has very many: until the COMMIT, DuckDB
 * keeps every one of these definitions.
 */

/** The effect of the configuration's rules on a column's values; never a salt or a value. */
function ruleOf({ rule, untracked, declared, text }: StoredColumn): string[] {
  const rules: string[] = [];
  const mask = describeMask({ ...rule, normalize: rule?.hash?.normalize });
  if (mask !== undefined) rules.push(mask);
  if (rule?.cast !== undefined) rules.push(`type set to ${rule.cast}`);
  else if (declared !== undefined) rules.push(`always ${declared}`);
  const form = textFormatOf(text);
  if (form !== undefined) rules.push(`text that reads as ${form.name}`);
  if (untracked === true) rules.push('not tracked: a new value alone is no change');
  return rules;
}

/** Where a column's values come from, since which run it is there, and which rules apply to it. */
export function columnComment(column: StoredColumn, since: string): string {
  return [`from ${columnPath(column)}`, `since run ${since}`, ...ruleOf(column)].join('; ').replaceAll('\0', '\\0');
}

/** Comments on the columns of a table or view, by name. */
type ColumnComments = Readonly<Record<string, string>>;

const runColumns: ColumnComments = {
  _run_id: 'the run that last changed the row',
  _synced_at: 'when that run began',
};
const changeColumns: ColumnComments = {
  _op: 'insert, update or delete',
  _run_id: 'the run that made the change',
  _synced_at: 'when that run began',
};

interface Relation {
  readonly kind: 'TABLE' | 'VIEW';
  readonly name: string;
  readonly comment: string;
  /** The columns that cdsync adds. */
  readonly added: ColumnComments;
  /** Which columns of the stream it has. */
  readonly columns: 'all' | 'tracked' | 'none';
}

/** The tables and views of a stream that are for readers. */
function relationsOf({ stream, key }: StreamState, comment: string): Relation[] {
  return [
    {
      kind: 'TABLE',
      name: stream,
      comment,
      added: { ...runColumns, _first_seen_at: 'when the first run that had the row began' },
      columns: 'all',
    },
    {
      kind: 'TABLE',
      name: `${stream}__changes`,
      comment: `inserts, updates and deletes of ${stream} after its first load, as far back as publish.history; a delete has the last row`,
      added: changeColumns,
      columns: 'all',
    },
    {
      kind: 'VIEW',
      name: `${stream}__history`,
      comment: `every version of every row of ${stream}; _valid_to is NULL for the present one`,
      added: {
        ...runColumns,
        _valid_from: 'when the run that read this version committed it',
        _valid_to: 'when a later run committed another version or the delete; NULL for the present version',
        _began_before:
          'whether it began before the time since when the history is complete, which _valid_from has then',
      },
      columns: 'tracked',
    },
    {
      kind: 'VIEW',
      name: `${stream}__last_changes`,
      comment: `the changes of the last run that read ${stream}, none if it found none: a row for each changed value, one for each insert and delete`,
      added: {
        ...Object.fromEntries(lastChangesKeys(key).map((name) => [name, 'the key of the row'])),
        column: 'the column that an update changed; NULL for an insert or a delete',
        before: 'its value before, as text',
        after: 'its value after, as text',
        ...changeColumns,
      },
      columns: 'none',
    },
  ];
}

/** The memory of the comments on a table's columns: for each a copy of the definition of all columns, and some more. Measured, in half kB. */
function commentSize(columns: number): number {
  return columns * (columns + 120);
}

/**
 * Whether columns get comments: those of one commit may take as much as those of a table with 500 columns, 160 MB.
 * @param widths columns of each stream that the commit describes
 */
export function fitComments(widths: readonly number[]): boolean {
  return widths.reduce((sum, columns) => sum + commentSize(columns), 0) <= commentSize(wideColumns);
}

/**
 * Describes the tables and views of a stream, and their columns, in the database. Call it in the commit, when they have their
 * last form.
 * @param since the first run that had each column, by its path
 */
export async function commentStream(
  store: SnapshotStore,
  state: StreamState,
  {
    job,
    source,
    since,
    describesColumns,
  }: { job: string; source: string; since: ReadonlyMap<string, string>; describesColumns: boolean },
): Promise<void> {
  const { stream, key, columns, run_id: runId } = state;
  const place = describesColumns ? '' : '; where each column comes from: cdsync.columns';
  const comment = `stream ${stream} of job ${job}: from ${source}, key ${key.join(', ')}${place}`.replaceAll(
    '\0',
    '\\0',
  );
  const comments = columns.map((column) => ({
    ...column,
    comment: columnComment(column, since.get(columnPath(column)) ?? runId),
  }));
  const statements = relationsOf(state, comment).flatMap(({ kind, name, comment: text, added, columns: has }) => {
    const shown = has === 'none' ? [] : comments.filter(({ untracked }) => has === 'all' || untracked !== true);
    const onColumns = Object.entries({
      ...added,
      ...Object.fromEntries(shown.map((column) => [column.name, column.comment])),
    }).map(([column, of]) => `COLUMN ${storeTable(name)}.${quoteIdentifier(column)} IS ${sqlText(of)}`);
    return [
      `${kind} ${storeTable(name)} IS ${sqlText(text)}`,
      ...(describesColumns || has === 'none' ? onColumns : []),
    ];
  });
  const asOf = `the rows of ${stream} as the last run that had committed by then left them`;
  statements.push(`MACRO TABLE ${storeTable(`${stream}_as_of`)} IS ${sqlText(asOf)}`);
  for (const table of [keysTable(stream), beforeTable(stream)])
    statements.push(`TABLE ${table} IS '${internalComment}'`);
  await store.session.run(statements.map((statement) => `COMMENT ON ${statement}`).join(';\n'));
}

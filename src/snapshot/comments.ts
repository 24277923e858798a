import { quoteIdentifier, sqlText } from '../core/sql.js';
import { columnPath, type StoredColumn } from '../rows/columns.js';
import { wideColumns } from '../rows/row-hash.js';
import { plainText } from '../rows/text-form.js';
import { type SnapshotStore, type StreamState, storeName, storeTable } from './snapshot-store.js';

/*
 * Comments on published tables and columns, as DuckDB's clients show them. Each is a change of the table's definition, and DuckDB
 * copies that whole for each: 500 columns take a quarter of a second, 5,000 would take half a minute. So tables with many columns have
 * a comment of their own only; `cdsync.columns` has all of them.
 */

/** What the rules of the configuration make of a column's values; never a salt or a value. */
function ruleOf({ treatment, untracked, declared, text }: StoredColumn): string[] {
  const rules: string[] = [];
  if (treatment?.hash !== undefined) {
    const { normalize } = treatment.hash;
    rules.push(`hashed with HMAC-SHA-256${normalize === undefined ? '' : `, normalized as ${normalize}`}`);
  }
  if (treatment?.mask !== undefined) rules.push(`masked: ${treatment.mask}`);
  if (treatment?.cast !== undefined) rules.push(`type set to ${treatment.cast}`);
  else if (declared !== undefined) rules.push(`always ${declared}`);
  if (text !== undefined && text !== plainText) rules.push(`text that reads as ${text}`);
  if (untracked === true) rules.push('not tracked: a new value alone is no change');
  return rules;
}

/** Where a column's values come from, since which run it is there, and which rules apply to it. */
export function columnComment(column: StoredColumn, since: string): string {
  return [`from ${columnPath(column)}`, `since run ${since}`, ...ruleOf(column)].join('; ').replaceAll('\0', '\\0');
}

/** The columns that cdsync adds to each row. */
const added: Readonly<Record<string, string>> = {
  _run_id: 'the run that last changed the row',
  _synced_at: 'when that run began',
  _first_seen_at: 'when the first run that had the row began',
};

async function commentColumns(store: SnapshotStore, state: StreamState, since: ReadonlyMap<string, string>) {
  const { stream, columns, run_id: runId } = state;
  if (columns.length > wideColumns) return;
  const rows = await store.session.rows(
    `SELECT column_name, comment FROM duckdb_columns() WHERE database_name = '${storeName}' AND schema_name = 'main'
       AND table_name = ${sqlText(stream)} AND comment IS NOT NULL`,
  );
  const present = new Map(rows.map(({ column_name, comment }) => [String(column_name), String(comment)]));
  const wanted = new Map(Object.entries(added));
  for (const column of columns) wanted.set(column.name, columnComment(column, since.get(columnPath(column)) ?? runId));
  for (const [name, comment] of wanted) {
    if (present.get(name) === comment) continue;
    await store.session.run(`COMMENT ON COLUMN ${storeTable(stream)}.${quoteIdentifier(name)} IS ${sqlText(comment)}`);
  }
}

/**
 * Says in the database what a stream's table and its columns are. Call it in the commit, when they have their last form. The views
 * say so where they are defined.
 * @param since the run that brought each column, by its path
 */
export async function commentStream(
  store: SnapshotStore,
  state: StreamState,
  { job, source, since }: { job: string; source: string; since: ReadonlyMap<string, string> },
): Promise<void> {
  const { stream, key, columns } = state;
  const place = columns.length > wideColumns ? '; where each column comes from: cdsync.columns' : '';
  const comment = `stream ${stream} of job ${job}: from ${source}, key ${key.join(', ')}${place}`;
  await store.session.run(`COMMENT ON TABLE ${storeTable(stream)} IS ${sqlText(comment.replaceAll('\0', '\\0'))}`);
  await commentColumns(store, state, since);
}

import type { ColumnRules } from '../../columns/column-rules.js';
import { type Column, ColumnSet } from '../../columns/columns.js';
import { sqlText } from '../../core/sql.js';
import type { Session } from '../../storage/duckdb.js';
import { convertedRows, dropMismatchedTypes, spooledType } from './converter.js';

/** The structure of the records, as DuckDB's `from_json` takes it. */
function structure(columns: readonly Column[]): string {
  return JSON.stringify([Object.fromEntries(columns.map((column) => [column.name, spooledType(column)]))]);
}

/** Rows in the form in which a run would keep them. */
export interface SampledRows {
  /** SQL that returns the rows. */
  readonly query: string;
  readonly columns: ColumnSet;
}

/**
 * Converts scanned records to the rows that a run would make of them, without a file in between.
 * @param records as a scanner writes them, separated by commas
 * @param read the columns of the scanner; a declared column becomes text if a value does not fit its type
 */
export async function sampledRows(
  session: Session,
  records: string,
  { read, rules }: { readonly read: ColumnSet; readonly rules: ColumnRules },
): Promise<SampledRows> {
  const source = () =>
    `(SELECT r.* FROM (SELECT unnest(from_json(${sqlText(`[${records}]`)}, ${sqlText(structure(read.list))})) AS r))`;
  await dropMismatchedTypes(session, read, source);
  const columns = ColumnSet.restore(rules.keep(read.store()));
  return { query: convertedRows(read, columns, source()), columns };
}

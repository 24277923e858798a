import { sqlText } from '../../core/sql.js';
import type { ColumnRules } from '../../rows/column-rules.js';
import { type Column, ColumnSet } from '../../rows/columns.js';
import type { Session } from '../../store/duckdb.js';
import { convertedRows, spooledType, undeclareMisfits } from './converter.js';

/** The structure of the records, as DuckDB's `from_json` takes it. */
function structure(columns: readonly Column[]): string {
  const at = (place: Column['place']) =>
    columns.filter((column) => column.place === place).map((column) => [column.name, spooledType(column)]);
  const attributes = at('attribute');
  const members = Object.fromEntries(at('envelope'));
  return JSON.stringify([
    attributes.length === 0 ? members : { ...members, attributes: Object.fromEntries(attributes) },
  ]);
}

/** Rows as a run would keep them. */
export interface SampledRows {
  /** SQL that gives them. */
  readonly query: string;
  readonly columns: ColumnSet;
}

/**
 * The rows that some scanned records become: those of a run, without a file in between.
 * @param records as a scanner has written them, separated by commas
 * @param read columns that the scanner has told; one with a value that its declared type does not fit becomes text
 */
export async function sampledRows(
  session: Session,
  records: string,
  { read, rules }: { readonly read: ColumnSet; readonly rules: ColumnRules },
): Promise<SampledRows> {
  const source = () =>
    `(SELECT r.* FROM (SELECT unnest(from_json(${sqlText(`[${records}]`)}, ${sqlText(structure(read.list))})) AS r))`;
  await undeclareMisfits(session, read, source());
  const columns = ColumnSet.restore(rules.keep(read.store()));
  return { query: convertedRows(read, columns, source()), columns };
}

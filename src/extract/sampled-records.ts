import type { Column, ColumnSet } from '../core/columns.js';
import { type Session, sqlText } from '../store/duckdb.js';
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

/**
 * SQL for the rows that some scanned records become: those of a run, without a file in between.
 * @param records as a scanner has written them, separated by commas
 * @param columns that the scanner has told; a declared type that a value does not fit is taken from them
 */
export async function sampledRows(session: Session, records: string, columns: ColumnSet): Promise<string> {
  const source = () =>
    `(SELECT r.* FROM (SELECT unnest(from_json(${sqlText(`[${records}]`)}, ${sqlText(structure(columns.list))})) AS r))`;
  await undeclareMisfits(session, columns, source());
  return convertedRows(columns.list, source());
}

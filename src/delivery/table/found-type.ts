import { parseColumnType } from '../../sdk/column-type.js';
import type { TableTypes } from '../../sdk/destination.js';

/** Types without parts, the wider ones first: a destination may have one type for several. */
const plainTypes = [
  ...['VARCHAR', 'HUGEINT', 'BIGINT', 'DOUBLE', 'BOOLEAN', 'TIMESTAMP WITH TIME ZONE', 'DATE', 'JSON'],
] as const;

/** Whether a column that the destination describes by a type could have been declared with one of DuckDB. */
function isDeclaredAs(
  { mapColumn, isTypeOf }: TableTypes,
  name: string,
  declared: string,
  duckdbType: string,
): boolean {
  const type = parseColumnType(duckdbType);
  const mapped = mapColumn(type, { name, type, duckdbType }).type;
  return isTypeOf?.(declared, mapped) ?? declared === mapped;
}

/**
 * The type that a column of a destination's type is declared with, as DuckDB spells it; undefined if a destination has that type for
 * none of cdsync's.
 * @param actual as the destination describes it
 */
export function declaredTypeOf(types: TableTypes, name: string, actual: string): string | undefined {
  const [, precision, scale] = /\((\d+), ?(\d+)\)/.exec(actual) ?? [];
  const decimals = precision === undefined ? [] : [`DECIMAL(${precision},${scale})`];
  // DuckDB's own types of lists and objects are declared as they are found.
  return [...plainTypes, ...decimals, actual].find((type) => isDeclaredAs(types, name, actual, type));
}

import { quoteIdentifier, sqlText } from '../core/sql.js';
import type { ColumnType } from './column-type.js';

/** Whether DuckDB writes some value of the type as text that is no JSON. */
function isRisky(type: ColumnType): boolean {
  if (type.kind === 'list') return isRisky(type.element);
  if (type.kind === 'struct') return type.fields.some((field) => isRisky(field.type));
  return type.kind === 'double' || (type.kind === 'decimal' && type.precision <= type.scale);
}

/**
 * SQL for a value that `to_json` and JSON files of DuckDB write as JSON, whatever it is and has in it: NaN and infinities, which
 * JSON lacks, become NULL, and 0.5 of `DECIMAL(18,18)` is not written as `.5`.
 * @param value SQL for a value of the type
 */
export function jsonValueSql(value: string, type: ColumnType, depth = 0): string {
  if (!isRisky(type)) return value;
  if (type.kind === 'list') {
    const element = `e${depth}`;
    return `list_transform(${value}, lambda ${element}: ${jsonValueSql(element, type.element, depth + 1)})`;
  }
  if (type.kind === 'struct') {
    const fields = type.fields.map(
      ({ name, type: of }) => `${sqlText(name)}: ${jsonValueSql(`(${value}).${quoteIdentifier(name)}`, of, depth)}`,
    );
    return `CASE WHEN ${value} IS NOT NULL THEN {${fields.join(', ')}} END`;
  }
  if (type.kind === 'double') return `CASE WHEN isfinite(${value}) THEN ${value} END`;
  return `regexp_replace(${value}::VARCHAR, '^(-?)[.]', '\\10.')::JSON`;
}

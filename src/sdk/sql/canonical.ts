import { type ColumnType, isNested } from '../column-type.js';
import { jsonValueSql } from '../json-value.js';
import type { RowHashing } from './row-sum.js';

/**
 * DuckDB's SQL of the text by which a value is compared with the one at a destination: truths as `true` and `false`, integers and
 * decimals digit for digit, doubles as the 16 hex digits of their bits (without the sign of zero), dates as days and
 * moments as microseconds since 1970 (`infinity`, `-infinity` where they are endless), texts as they are, everything else as JSON. A dialect gives the same text for the same value.
 */
export function canonicalText(value: string, kind: ColumnType): string {
  switch (kind.kind) {
    case 'text':
      return value;
    case 'decimal':
      return `regexp_replace((${value})::VARCHAR, '^(-?)[.]', '\\10.')`;
    case 'double':
      return doubleBits(value);
    case 'date':
      return `CASE WHEN isfinite(${value}) THEN date_diff('day', DATE '1970-01-01', ${value})::VARCHAR ELSE (${value})::VARCHAR END`;
    case 'timestamp':
      return `CASE WHEN isfinite(${value}) THEN epoch_us(${value})::VARCHAR ELSE (${value})::VARCHAR END`;
    case 'json':
      return `(${value})::VARCHAR`;
    default:
      return isNested(kind) ? `to_json(${jsonValueSql(value, kind)})::VARCHAR` : `(${value})::VARCHAR`;
  }
}

function doubleBits(value: string): string {
  return `lower(hex((CASE WHEN ${value} = 0 THEN 0.0::DOUBLE ELSE ${value} END)::BIT::BLOB))`;
}

/** The hash of a row in DuckDB. */
export const duckdbHashing: RowHashing = {
  md5: (text) => `md5(${text})`,
  number: (hex) => `('0x' || substr(${hex}, 1, 15))::BIGINT`,
  sum: (number) => `coalesce(sum(${number}), 0)::VARCHAR`,
};

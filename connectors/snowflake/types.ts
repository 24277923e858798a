import { type ColumnType, mapsColumns, widensDecimal } from '../../src/sdk/index.js';

/** 16 MiB: the length that a VARCHAR can have in every account. */
const textBytes = 16_777_216;
export const text = `VARCHAR(${textBytes})`;

/** The days that DATE and TIMESTAMP hold reliably: Snowflake advises against years before 1582. */
const days = { first: '1582-01-01', last: '9999-12-31' };
const maxDigits = 37;

/** Types are spelled as in `DESCRIBE TABLE`. */
export const mapColumn = mapsColumns({
  boolean: 'BOOLEAN',
  int64: 'NUMBER(38,0)',
  // DuckDB writes 128-bit integers into Parquet as doubles, but decimals with all digits.
  int128: { type: 'NUMBER(38,0)', as: 'DECIMAL(38,0)' },
  decimal: ({ precision, scale }) =>
    scale > maxDigits ? { type: text, as: 'VARCHAR' } : `NUMBER(${precision},${scale})`,
  double: 'FLOAT',
  timestamp: { type: 'TIMESTAMP_TZ(6)', limits: { days } },
  date: { type: 'DATE', limits: { days } },
  text: { type: text, limits: { maxBytes: textBytes } },
  json: { type: 'VARIANT', as: 'JSON', limits: { maxBytes: textBytes } },
});

/** A number may only become longer, with as many digits behind the point. */
export function widens(declared: ColumnType, current: ColumnType): boolean {
  return widensDecimal(declared, current) && declared.kind === 'decimal' && declared.scale <= maxDigits;
}

import { type ColumnMapping, type ColumnType, widensDecimal } from '../../src/sdk/index.js';

/** 16 MiB: the length that a VARCHAR can have in every account. */
const textBytes = 16_777_216;
export const text = `VARCHAR(${textBytes})`;

/** The days that DATE and TIMESTAMP hold reliably: Snowflake advises against years before 1582. */
const days = { first: '1582-01-01', last: '9999-12-31' };
const mostDigits = 37;

/** Types are spelled as in `DESCRIBE TABLE`. */
export function mapColumn(type: ColumnType): ColumnMapping {
  switch (type.kind) {
    case 'boolean':
      return { type: 'BOOLEAN' };
    case 'int64':
      return { type: 'NUMBER(38,0)' };
    case 'int128':
      // DuckDB writes 128-bit integers into Parquet as doubles, but decimals with all digits.
      return { type: 'NUMBER(38,0)', as: 'DECIMAL(38,0)' };
    case 'decimal':
      return type.scale > mostDigits
        ? { type: text, as: 'VARCHAR' }
        : { type: `NUMBER(${type.precision},${type.scale})` };
    case 'double':
      return { type: 'FLOAT' };
    case 'timestamp':
      return { type: 'TIMESTAMP_TZ(6)', limits: { days } };
    case 'date':
      return { type: 'DATE', limits: { days } };
    case 'text':
      return { type: text, limits: { maxBytes: textBytes } };
    case 'json':
    case 'list':
    case 'struct':
      return { type: 'VARIANT', as: 'JSON', limits: { maxBytes: textBytes } };
  }
}

/** A number may only become longer, with as many digits behind the point. */
export function widens(declared: ColumnType, now: ColumnType): boolean {
  return widensDecimal(declared, now) && declared.kind === 'decimal' && declared.scale <= mostDigits;
}

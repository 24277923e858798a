import type { ColumnMapping, ColumnType } from '../../src/sdk/index.js';

/** 16 MiB: the length that a VARCHAR can have in every account. */
const textBytes = 16_777_216;
const text = `VARCHAR(${textBytes})`;

/** The days that DATE and TIMESTAMP hold reliably: Snowflake advises against years before 1582. */
const days = { first: '1582-01-01', last: '9999-12-31' };

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
      return type.scale > 37 ? { type: text, as: 'VARCHAR' } : { type: `NUMBER(${type.precision},${type.scale})` };
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

/** Snowflake can change a column's type only to a longer one of the same kind. */
export function widens(from: string, to: string): boolean {
  const [a, b] = [from, to].map((type) => /^(NUMBER|VARCHAR)\((\d+)(?:,(\d+))?\)$/.exec(type));
  return a != null && b != null && a[1] === b[1] && a[3] === b[3] && Number(a[2]) <= Number(b[2]);
}

export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** The type of a column in the staging table: JSON is text until PARSE_JSON reads it. */
export function stagedType(type: string): string {
  return type === 'VARIANT' ? text : type;
}

/** SQL that turns a staged value into the column's own type. */
export function stagedValue({ name, type }: { readonly name: string; readonly type: string }): string {
  return type === 'VARIANT' ? `PARSE_JSON(${identifier(name)})` : identifier(name);
}

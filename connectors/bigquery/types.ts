import { mapsColumns, type TableColumn } from '../../src/sdk/index.js';
import type { LoadField } from './sdk.js';

/** The days that DATE and TIMESTAMP can hold. */
const days = { first: '0001-01-01', last: '9999-12-31' };

/** Types are spelled as in `INFORMATION_SCHEMA.COLUMNS`, without spaces. */
export const mapColumn = mapsColumns({
  boolean: 'BOOL',
  int64: 'INT64',
  // DuckDB writes 128-bit integers into Parquet as doubles, but decimals with all digits.
  int128: { type: 'BIGNUMERIC', as: 'DECIMAL(38,0)' },
  decimal: ({ precision, scale }) =>
    `${scale <= 9 && precision - scale <= 29 ? 'NUMERIC' : 'BIGNUMERIC'}(${precision},${scale})`,
  double: 'FLOAT64',
  timestamp: { type: 'TIMESTAMP', limits: { days } },
  date: { type: 'DATE', limits: { days } },
  text: 'STRING',
  // Not the type JSON: it stores numbers beyond 64 bits as doubles.
  json: { type: 'STRING', as: 'JSON' },
});

/** @param collation of its texts: with `und:ci`, small and capital letters are the same, in keys too */
export function described(type: string, collation?: unknown): string {
  const plain = type.replaceAll(' ', '');
  return typeof collation !== 'string' || /^(NULL)?$/.test(collation) ? plain : `${plain} COLLATE '${collation}'`;
}

/** A column as a load job's schema spells it. */
export function loadField({ name, type }: TableColumn): LoadField {
  const [, base = type, precision, scale] = /^((?:BIG)?NUMERIC)\((\d+),(\d+)\)$/.exec(type) ?? [];
  const digits = precision === undefined || scale === undefined ? {} : { precision, scale };
  return { name, type: base, mode: 'NULLABLE', ...digits };
}

import type { ColumnMapping, ColumnType, TableColumn } from '../../src/sdk/index.js';
import type { LoadField } from './sdk.js';

/** The days that DATE and TIMESTAMP can hold. */
const days = { first: '0001-01-01', last: '9999-12-31' };

/** Types are spelled as in `INFORMATION_SCHEMA.COLUMNS`, without spaces. */
export function mapColumn(type: ColumnType): ColumnMapping {
  switch (type.kind) {
    case 'boolean':
      return { type: 'BOOL' };
    case 'int64':
      return { type: 'INT64' };
    case 'int128':
      // DuckDB writes 128-bit integers into Parquet as doubles, but decimals with all digits.
      return { type: 'BIGNUMERIC', as: 'DECIMAL(38,0)' };
    case 'decimal': {
      const { precision, scale } = type;
      const name = scale <= 9 && precision - scale <= 29 ? 'NUMERIC' : 'BIGNUMERIC';
      return { type: `${name}(${precision},${scale})` };
    }
    case 'double':
      return { type: 'FLOAT64' };
    case 'timestamp':
      return { type: 'TIMESTAMP', limits: { days } };
    case 'date':
      return { type: 'DATE', limits: { days } };
    case 'text':
      return { type: 'STRING' };
    case 'json':
    case 'list':
    case 'struct':
      // Not the type JSON: it stores numbers beyond 64 bits as doubles.
      return { type: 'STRING', as: 'JSON' };
  }
}

export function described(type: string): string {
  return type.replaceAll(' ', '');
}

/** A column as a load job's schema spells it. */
export function loadField({ name, type }: TableColumn): LoadField {
  const [, base = type, precision, scale] = /^((?:BIG)?NUMERIC)\((\d+),(\d+)\)$/.exec(type) ?? [];
  const digits = precision === undefined || scale === undefined ? {} : { precision, scale };
  return { name, type: base, mode: 'NULLABLE', ...digits };
}

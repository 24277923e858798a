import type { ColumnMapping, ColumnType, TableColumn } from '../../src/sdk/index.js';
import type { LoadField } from './sdk.js';

/** What DATE and TIMESTAMP hold. */
const days = { first: '0001-01-01', last: '9999-12-31' };

/** Spelled as `INFORMATION_SCHEMA.COLUMNS` does, without its spaces. */
export function mapColumn(type: ColumnType): ColumnMapping {
  switch (type.kind) {
    case 'boolean':
      return { type: 'BOOL' };
    case 'int64':
      return { type: 'INT64' };
    case 'int128':
      // DuckDB writes integers of 128 bits as doubles into Parquet, decimals with all digits.
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
      // Not JSON, whose numbers are doubles beyond 64 bits.
      return { type: 'STRING', as: 'JSON' };
  }
}

/** Integers become doubles only where the stream has seen none beyond 2^53. */
export function widens(from: string, to: string): boolean {
  if (from === 'INT64') return to === 'BIGNUMERIC' || to === 'NUMERIC' || to === 'FLOAT64';
  return to === 'STRING' && /^STRING\(\d+\)$/.test(from);
}

export function described(type: string): string {
  return type.replaceAll(' ', '');
}

export function identifier(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** A column as a load job has it. */
export function loadField({ name, type }: TableColumn): LoadField {
  const [, base = type, precision, scale] = /^((?:BIG)?NUMERIC)\((\d+),(\d+)\)$/.exec(type) ?? [];
  const digits = precision === undefined || scale === undefined ? {} : { precision, scale };
  return { name, type: base, mode: 'NULLABLE', ...digits };
}

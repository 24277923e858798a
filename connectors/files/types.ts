import { type ColumnMapping, type ColumnType, parseColumnType } from '../../src/sdk/index.js';

const plain = {
  boolean: 'BOOLEAN',
  int64: 'BIGINT',
  // Parquet has no integer of 128 bits.
  int128: 'DECIMAL(38,0)',
  double: 'DOUBLE',
  text: 'VARCHAR',
  json: 'JSON',
  timestamp: 'TIMESTAMP WITH TIME ZONE',
  date: 'DATE',
} as const;

export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A type as the manifest spells it, which is DuckDB's spelling. */
function spelled(type: ColumnType): string {
  if (type.kind === 'decimal') return `DECIMAL(${type.precision},${type.scale})`;
  if (type.kind === 'list') return `${spelled(type.element)}[]`;
  if (type.kind !== 'struct') return plain[type.kind];
  return `STRUCT(${type.fields.map((field) => `${identifier(field.name)} ${spelled(field.type)}`).join(', ')})`;
}

/** The type of a column in the manifest; `formats.ts` says how each format writes it. */
export function mapColumn(type: ColumnType): ColumnMapping {
  return { type: spelled(type), as: spelled(type) };
}

function digitsOf(type: ColumnType): { whole: number; scale: number } | undefined {
  if (type.kind === 'int64') return { whole: 19, scale: 0 };
  if (type.kind === 'int128') return { whole: 38, scale: 0 };
  return type.kind === 'decimal' ? { whole: type.precision - type.scale, scale: type.scale } : undefined;
}

function holds(from: ColumnType, to: ColumnType): boolean {
  if (spelled(from) === spelled(to)) return true;
  if (from.kind === 'list' && to.kind === 'list') return holds(from.element, to.element);
  if (from.kind === 'struct' && to.kind === 'struct') {
    return from.fields.every(({ name, type }) => {
      const there = to.fields.find((field) => field.name.toLowerCase() === name.toLowerCase());
      return there !== undefined && holds(type, there.type);
    });
  }
  // A stream turns integers into doubles only if none of them exceeds 2^53.
  if (from.kind === 'int64' && to.kind === 'double') return true;
  const [small, large] = [digitsOf(from), digitsOf(to)];
  return small !== undefined && large !== undefined && small.whole <= large.whole && small.scale <= large.scale;
}

export function widens(from: string, to: string): boolean {
  return holds(parseColumnType(from), parseColumnType(to));
}

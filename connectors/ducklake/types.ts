import { type ColumnMapping, type ColumnType, parseColumnType } from '../../src/sdk/index.js';

const plain = {
  boolean: 'BOOLEAN',
  int64: 'BIGINT',
  // DuckLake writes HUGEINT as a double. A decimal keeps all 38 digits.
  int128: 'DECIMAL(38,0)',
  double: 'DOUBLE',
  text: 'VARCHAR',
  json: 'JSON',
  timestamp: 'TIMESTAMP WITH TIME ZONE',
  date: 'DATE',
} as const;

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function spelled(type: ColumnType): string {
  switch (type.kind) {
    case 'decimal':
      return `DECIMAL(${type.precision},${type.scale})`;
    case 'list':
      return `${spelled(type.element)}[]`;
    case 'struct':
      return `STRUCT(${type.fields.map(({ name, type: of }) => `${quoted(name)} ${spelled(of)}`).join(', ')})`;
    default:
      return plain[type.kind];
  }
}

function hasInt128(type: ColumnType): boolean {
  if (type.kind === 'list') return hasInt128(type.element);
  if (type.kind === 'struct') return type.fields.some((field) => hasInt128(field.type));
  return type.kind === 'int128';
}

/** Every type stays the same; only 128-bit integers become decimals without a fraction. */
export function mapColumn(type: ColumnType): ColumnMapping {
  return hasInt128(type) ? { type: spelled(type), as: spelled(type) } : { type: spelled(type) };
}

/** A type that DuckDB names, in this connector's spelling. */
export function spelledLikeOurs(duckdbType: string): string {
  return spelled(parseColumnType(duckdbType));
}

function holds(from: ColumnType, to: ColumnType): boolean {
  if (from.kind === 'struct' && to.kind === 'struct') {
    return from.fields.every((field) => {
      const there = to.fields.find(({ name }) => name.toLowerCase() === field.name.toLowerCase());
      return there !== undefined && holds(field.type, there.type);
    });
  }
  if (from.kind === 'list' && to.kind === 'list') return holds(from.element, to.element);
  if (from.kind === 'int64') return ['int64', 'int128', 'double'].includes(to.kind);
  return spelled(from) === spelled(to);
}

/** BIGINT may become DOUBLE: a stream turns integers into doubles only if none of them exceeds 2^53. */
export function widens(from: string, to: string): boolean {
  return holds(parseColumnType(from), parseColumnType(to));
}

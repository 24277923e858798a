import { type ColumnMapping, type ColumnType, parseColumnType } from '../../src/sdk/index.js';

const plain = {
  boolean: 'BOOLEAN',
  int64: 'BIGINT',
  int128: 'HUGEINT',
  double: 'DOUBLE',
  text: 'VARCHAR',
  json: 'JSON',
  timestamp: 'TIMESTAMP WITH TIME ZONE',
  date: 'DATE',
} as const;

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** A type as this connector spells it; `int128` as files have it, or as tables do. */
function spelled(type: ColumnType, int128: string): string {
  switch (type.kind) {
    case 'int128':
      return int128;
    case 'decimal':
      return `DECIMAL(${type.precision},${type.scale})`;
    case 'list':
      return `${spelled(type.element, int128)}[]`;
    case 'struct':
      return `STRUCT(${type.fields.map(({ name, type: of }) => `${quoted(name)} ${spelled(of, int128)}`).join(', ')})`;
    default:
      return plain[type.kind];
  }
}

/** Everything stays what it is; Parquet files, by which it comes, have no integers of 128 bits. */
export function mapColumn(type: ColumnType): ColumnMapping {
  const [inTable, inFile] = [spelled(type, 'HUGEINT'), spelled(type, 'DECIMAL(38,0)')];
  return inTable === inFile ? { type: inTable } : { type: inTable, as: inFile };
}

/** How a type that DuckDB names is spelled here. */
export function spelledLikeOurs(duckdbType: string): string {
  return spelled(parseColumnType(duckdbType), 'HUGEINT');
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
  return spelled(from, 'HUGEINT') === spelled(to, 'HUGEINT');
}

/** Integers become doubles only where the stream has seen none beyond 2^53. */
export function widens(from: string, to: string): boolean {
  return holds(parseColumnType(from), parseColumnType(to));
}

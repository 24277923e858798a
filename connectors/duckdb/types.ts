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

/** A type as this connector spells it. @param int128 the spelling of a 128-bit integer, which differs in files and tables */
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

/** Every type stays the same. Only 128-bit integers travel as decimals, because Parquet has no such integers. */
export function mapColumn(type: ColumnType): ColumnMapping {
  const [inTable, inFile] = [spelled(type, 'HUGEINT'), spelled(type, 'DECIMAL(38,0)')];
  return inTable === inFile ? { type: inTable } : { type: inTable, as: inFile };
}

/** A type that DuckDB names, in this connector's spelling. */
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

/** BIGINT may become DOUBLE: a stream turns integers into doubles only if none of them exceeds 2^53. */
export function widens(from: string, to: string): boolean {
  return holds(parseColumnType(from), parseColumnType(to));
}

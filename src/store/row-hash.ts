import { quoteIdentifier } from '../core/column-shape.js';
import { sqlText } from './duckdb.js';

/** Moves with DuckDB's `hash()` and with what {@link rowHash} makes of it; stored hashes of another version are computed anew. */
export function hashVersion(duckdbVersion: string): string {
  return `1:${duckdbVersion}`;
}

export interface TypedColumn {
  readonly name: string;
  readonly type: string;
}

/** `hash()` does not tell 0.0 from -0.0, NULL from [] or NULL from {a: NULL}; the text of nested values does. */
function hashed({ name, type }: TypedColumn): string {
  const column = quoteIdentifier(name);
  if (type === 'DOUBLE') return `${column}, signbit(${column})`;
  if (type.endsWith('[]') || type.startsWith('STRUCT(')) return `to_json(${column})::VARCHAR`;
  return column;
}

/**
 * SQL for the 64-bit hash of a row: XOR over its columns of hash(name, value), NULL giving nothing, so that neither a new
 * column nor another order of columns changes the hash of a row that has not changed.
 */
export function rowHash(columns: readonly TypedColumn[]): string {
  const terms = columns.map((column) => {
    const value = quoteIdentifier(column.name);
    return `CASE WHEN ${value} IS NULL THEN 0::UBIGINT ELSE hash(${sqlText(column.name)}, ${hashed(column)}) END`;
  });
  // A balanced tree: a chain of hundreds of calls would be too deep for the parser.
  let level = terms;
  while (level.length > 1) {
    const next: string[] = [];
    for (let index = 0; index < level.length; index += 2) {
      const [left, right] = [level[index] as string, level[index + 1]];
      next.push(right === undefined ? left : `xor(${left}, ${right})`);
    }
    level = next;
  }
  return level[0] ?? '0::UBIGINT';
}

/** SQL for the text by which rows are told apart: the key column itself, or a JSON list where several make the key. */
export function rowKey(key: readonly string[]): string {
  const columns = key.map((name) => `${quoteIdentifier(name)}::VARCHAR`);
  return columns.length === 1 ? (columns[0] as string) : `to_json([${columns.join(', ')}])::VARCHAR`;
}

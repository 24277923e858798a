import { quoteIdentifier, sqlText } from '../core/sql.js';

/**
 * Changes with DuckDB's `hash()` and with {@link rowHash}. Stored hashes of another version are computed anew. The hashes
 * beside parts are not: raise `partVersion` (`part.ts`) too.
 */
export function hashVersion(duckdbVersion: string): string {
  return `3:${duckdbVersion}`;
}

export interface TypedColumn {
  readonly name: string;
  readonly type: string;
  /** True: the hash leaves the column out. */
  readonly untracked?: boolean;
}

/**
 * `hash()` does not tell 0.0 from -0.0, NULL from [] or NULL from {a: NULL}. The sign bit tells the zeros apart, the text
 * of a nested value the others. `hash()` of several arguments is the XOR of their hashes; the XOR over the columns would
 * cancel the names, and two columns that swap their values would go unnoticed. So its result is hashed once more.
 */
function hashed({ name, type }: TypedColumn, value: string): string {
  if (type === 'DOUBLE') return `hash(hash(${sqlText(name)}, ${value}, signbit(${value})))`;
  const nested = type.endsWith('[]') || type.startsWith('STRUCT(');
  return `hash(hash(${sqlText(name)}, ${nested ? `to_json(${value})::VARCHAR` : value}))`;
}

/** A balanced tree of XORs: a chain of hundreds would be too deep for the parser. */
function xorOf(terms: readonly string[]): string {
  let level = [...terms];
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

/**
 * SQL for the 64-bit hash of a row: the XOR over its columns of hash(name, value), in which NULL counts for nothing. So
 * neither a new column nor another order of columns changes the hash of an unchanged row. One more XOR, with the hash of a
 * row of NULLs, makes NULL count for nothing: that hash is a constant, which is cheaper than a test of each value.
 */
export function rowHash(all: readonly TypedColumn[]): string {
  const columns = all.filter(({ untracked }) => untracked !== true);
  const values = columns.map((column) => hashed(column, quoteIdentifier(column.name)));
  const nulls = columns.map((column) => hashed(column, `NULL::${column.type}`));
  return columns.length === 0 ? '0::UBIGINT' : `xor(${xorOf(values)}, ${xorOf(nulls)})`;
}

/** SQL for the key of a row as text: the key column itself, or a JSON list if several columns make the key. */
export function rowKey(key: readonly string[]): string {
  const columns = key.map((name) => `${quoteIdentifier(name)}::VARCHAR`);
  return columns.length === 1 ? (columns[0] as string) : `to_json([${columns.join(', ')}])::VARCHAR`;
}

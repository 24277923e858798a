import { quoteIdentifier, sqlText, sqlTexts } from '../core/sql.js';
import type { TextFormat } from './text-format.js';

/**
 * Changes with DuckDB's `hash()` and with {@link rowHash}. Stored hashes of another version are computed again, except those in
 * keys files of parts: raise `partVersion` (`part.ts`) too.
 */
export function hashVersion(duckdbVersion: string): string {
  return `5:${duckdbVersion}`;
}

export interface TypedColumn {
  readonly name: string;
  readonly type: string;
  /** The text format of the column. Its texts are hashed, so that a row's hash does not depend on the texts of other rows. */
  readonly form?: TextFormat | undefined;
  /** True: the hash leaves the column out. */
  readonly untracked?: boolean;
}

/** A column with SQL for the values that are hashed, and their type, which {@link hashOf} hashes exactly. */
interface HashedColumn {
  readonly name: string;
  readonly type: string;
  readonly value: string;
}

/**
 * The types whose values DuckDB's `hash()` distinguishes: at most 64 bits, and texts. Of 128-bit values many collide; lists and
 * structs are hashed without NULLs and lengths, an INTERVAL as a length of time.
 */
const hashedExactly =
  /^(BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER|DOUBLE|FLOAT|VARCHAR|JSON|BLOB|DATE|TIME|TIMESTAMP\b.*)$/;
const decimal = /^DECIMAL\((\d+),\d+\)$/;
/** The most digits of a DECIMAL of 64 bits. */
const shortDigits = 18;

/** Values of other types are hashed as texts. */
function hashable(type: string, value: string): Pick<HashedColumn, 'type' | 'value'> {
  const digits = decimal.exec(type)?.[1];
  const isExact =
    digits === undefined ? hashedExactly.test(type) && !type.endsWith(']') : Number(digits) <= shortDigits;
  if (isExact) return { type, value };
  const isNested = type.endsWith(']') || /^(STRUCT|MAP|UNION)\(/.test(type);
  const text = `${value}::VARCHAR`;
  if (!isNested) return { type: 'VARCHAR', value: text };
  const json = `to_json(${value})::VARCHAR`;
  // `to_json` gives numbers inside of JSON the digits of doubles.
  return { type: 'VARCHAR', value: /\bJSON\b/.test(type) ? `${json} || ${text}` : json };
}

function tracked(columns: readonly TypedColumn[]): HashedColumn[] {
  return columns
    .filter(({ untracked }) => untracked !== true)
    .map(({ name, type, form }) => {
      const value = quoteIdentifier(name);
      return { name, ...(form === undefined ? hashable(type, value) : { type: 'VARCHAR', value: form.text(value) }) };
    });
}

/**
 * `hash()` is the same for 0.0 and -0.0, so the sign bit is hashed too. `hash()` of several arguments is the XOR of their hashes. The
 * XOR over all columns would cancel the names, and miss two columns that swap values, so the result is hashed once more.
 */
function hashOf(name: string, type: string, value: string): string {
  const hasSign = type === 'DOUBLE' || type === 'FLOAT';
  return hasSign ? `hash(hash(${name}, ${value}, signbit(${value})))` : `hash(hash(${name}, ${value}))`;
}

function hashed({ name, type }: HashedColumn, value: string): string {
  return hashOf(sqlText(name), type, value);
}

/** A balanced tree of XORs, because DuckDB's parser limits the depth of a chain. */
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
 * SQL for the 64-bit hash of a row: the XOR of hash(name, value) over all columns whose value is not NULL. Neither a new column nor
 * another order of columns changes the hash. A final XOR with the hash of a row of NULLs cancels the NULLs: it is a constant, which
 * is cheaper than a test of each value.
 */
export function rowHash(all: readonly TypedColumn[]): string {
  const columns = tracked(all);
  const values = columns.map((column) => hashed(column, column.value));
  const nulls = columns.map((column) => hashed(column, `NULL::${column.type}`));
  return columns.length === 0 ? '0::UBIGINT' : `xor(${xorOf(values)}, ${xorOf(nulls)})`;
}

/** Above this number of columns, hashes are computed from lists of values, because DuckDB needs memory for each expression. */
export const wideColumns = 500;

function listed(columns: readonly HashedColumn[]) {
  const byType = new Map<string, HashedColumn[]>();
  for (const column of columns) {
    const sameType = byType.get(column.type);
    if (sameType === undefined) byType.set(column.type, [column]);
    else sameType.push(column);
  }
  // Few enough values for memory, but enough that a file is read only a few times.
  const most = Math.max(1000, Math.ceil(columns.length / 5));
  return [...byType].flatMap(([type, all]) =>
    Array.from({ length: Math.ceil(all.length / most) }, (_, index) => ({
      type,
      columns: all.slice(index * most, (index + 1) * most),
    })),
  );
}

/**
 * SQL for (id, hash) of rows: {@link rowHash}, computed from lists of values if the table has many columns.
 * @param source SQL after FROM; it may be read several times, each time for some columns
 * @param id an expression that is unique for each row
 */
export function hashedRows(source: string, id: string, all: readonly TypedColumn[]): string {
  const columns = tracked(all);
  if (columns.length <= wideColumns) return `SELECT ${id} AS id, ${rowHash(all)} AS hash FROM ${source}`;
  const lists = listed(columns).map(({ type, columns: some }) => {
    const names = `unnest(${sqlTexts(some.map(({ name }) => name))})`;
    const values = some.map(({ value }) => value);
    const nulls = `SELECT bit_xor(${hashOf('n', type, `NULL::${type}`)}) FROM (SELECT ${names} AS n)`;
    return `SELECT id, xor(bit_xor(${hashOf('n', type, 'v')}), (${nulls})) AS hash
       FROM (SELECT ${id} AS id, ${names} AS n, unnest([${values.join(', ')}]) AS v FROM ${source}) GROUP BY id`;
  });
  return `SELECT id, bit_xor(hash) AS hash FROM (${lists.join(' UNION ALL ')}) GROUP BY id`;
}

/** Whether a row may have this text as its key: of several key columns it is a JSON list of that length. */
export function isRowKey(text: string, key: readonly string[]): boolean {
  if (key.length === 1) return true;
  try {
    const parts: unknown = JSON.parse(text);
    return Array.isArray(parts) && parts.length === key.length;
  } catch {
    return false;
  }
}

/** SQL for the key of a row as text: the key column itself, or a JSON list of several key columns. */
export function rowKey(key: readonly string[]): string {
  const columns = key.map((name) => `${quoteIdentifier(name)}::VARCHAR`);
  return columns.length === 1 ? (columns[0] as string) : `to_json([${columns.join(', ')}])::VARCHAR`;
}

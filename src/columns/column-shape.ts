import { quoteIdentifier } from '../core/sql.js';

/**
 * The kinds of a column's values, as bits, with the shapes of list elements and struct fields. Merging is a union: it is commutative,
 * associative and idempotent, and a type never narrows.
 */
export interface Shape {
  /** Union of {@link Kind} bits; 0 if every value so far was null or missing. */
  kinds: number;
  /** Of a list's elements. */
  element?: Shape;
  /** Of a struct's fields, in the order in which they were first seen. */
  fields?: Map<string, Shape>;
}

/** Bits of {@link Shape.kinds}. Null has no bit: missing and null are the same. */
export const Kind = {
  boolean: 1,
  /** An integer that a double holds exactly: at most 2^53 from zero. */
  safeInteger: 2,
  /** An integer beyond 2^53 that an int64 holds. */
  longInteger: 4,
  /** An integer beyond int64 of at most 38 digits: what HUGEINT in tables and DECIMAL(38,0) in Parquet both hold. */
  hugeInteger: 8,
  /** A number with a fraction or an exponent that a double holds: it becomes neither infinite nor, if it is not zero, zero. */
  double: 16,
  string: 32,
  list: 64,
  struct: 128,
  /** Only text can hold it: an integer of more than 38 digits, a number outside the range of a double, an object of too many parts. */
  textOnly: 256,
  /** Set beside `double` if -0.0 was among the values. Parquet's dictionaries and some encodings of DuckDB make it 0.0. */
  negativeZero: 512,
} as const;

const integers = Kind.safeInteger | Kind.longInteger | Kind.hugeInteger;

/** Lists and structs nested deeper than this make the column JSON. */
const maxTypedDepth = 16;

/** The shape of a column without values. */
export function emptyShape(): Shape {
  return { kinds: 0 };
}

/** The most leaves of a column that has a type. DuckDB needs memory for each of them in every step, however few the rows are. */
export const maxLeaves = 256;

/** The values beside each other in one value of the type: a struct has those of its fields, a list those of its element. */
export function leavesOf({ element, fields }: Shape): number {
  let leaves = element === undefined ? 0 : leavesOf(element);
  for (const field of fields?.values() ?? []) leaves += leavesOf(field);
  return Math.max(1, leaves);
}

function depthOf({ element, fields }: Shape): number {
  let depth = element === undefined ? 0 : depthOf(element);
  for (const field of fields?.values() ?? []) depth = Math.max(depth, depthOf(field));
  return depth + 1;
}

/**
 * Makes a shape that no type should have one that only text can hold, and forgets its parts: they may be unlimited. A shape that became
 * so stays so, whatever is merged into it.
 */
export function limitShape(shape: Shape): void {
  if (shape.element === undefined && shape.fields === undefined) return;
  const isText = (shape.kinds & Kind.textOnly) !== 0;
  if (!isText && leavesOf(shape) <= maxLeaves && depthOf(shape) <= maxTypedDepth + 1) return;
  shape.kinds |= Kind.textOnly;
  delete shape.element;
  delete shape.fields;
}

/** Adds the kinds, elements and fields of `from` to `into`. Returns whether that changed `into`. */
export function mergeShape(into: Shape, from: Shape): boolean {
  let changed = (into.kinds | from.kinds) !== into.kinds;
  into.kinds |= from.kinds;
  // One of them has forgotten its parts.
  if ((into.kinds & Kind.textOnly) !== 0) {
    limitShape(into);
    return changed;
  }
  if (from.element !== undefined) {
    if (into.element === undefined) {
      into.element = emptyShape();
      changed = true;
    }
    changed = mergeShape(into.element, from.element) || changed;
  }
  if (from.fields !== undefined) {
    if (into.fields === undefined) {
      into.fields = new Map();
      changed = true;
    }
    for (const [name, shape] of from.fields) {
      let field = into.fields.get(name);
      if (field === undefined) {
        field = emptyShape();
        into.fields.set(name, field);
        changed = true;
      }
      changed = mergeShape(field, shape) || changed;
    }
  }
  return changed;
}

function structType(fields: Map<string, Shape>, huge: string, depth: number): string | undefined {
  if (fields.size === 0 || fields.size > maxLeaves) return undefined;
  const seen = new Set<string>();
  const parts: string[] = [];
  for (const [name, shape] of fields) {
    const folded = name.toLowerCase();
    // DuckDB matches struct fields without regard to case, and its SQL allows neither an empty name nor NUL.
    if (name === '' || name.includes('\0') || !name.isWellFormed() || seen.has(folded)) return undefined;
    seen.add(folded);
    const type = typedSqlType(shape, huge, depth + 1);
    if (type === undefined) return undefined;
    parts.push(`${quoteIdentifier(name)} ${type}`);
  }
  return `STRUCT(${parts.join(', ')})`;
}

function typedSqlType(shape: Shape, huge: string, depth: number): string | undefined {
  const kinds = shape.kinds & ~Kind.negativeZero;
  if (depth > maxTypedDepth) return undefined;
  if (kinds === 0 || kinds === Kind.string) return 'VARCHAR';
  if (kinds === Kind.boolean) return 'BOOLEAN';
  if ((kinds & ~integers) === 0) return (kinds & Kind.hugeInteger) !== 0 ? huge : 'BIGINT';
  if ((kinds & ~(Kind.double | Kind.safeInteger)) === 0) return 'DOUBLE';
  if (kinds === Kind.list) {
    const element = typedSqlType(shape.element ?? emptyShape(), huge, depth + 1);
    return element === undefined ? undefined : `${element}[]`;
  }
  if (kinds === Kind.struct) return structType(shape.fields ?? new Map(), huge, depth);
  return undefined;
}

/**
 * The DuckDB type that holds all values of the shape without loss, or `JSON` (one canonical text). Mixed kinds at any depth make the
 * whole column JSON.
 */
export function sqlType(shape: Shape): string {
  return typedSqlType(shape, 'HUGEINT', 0) ?? 'JSON';
}

/** The same in a Parquet file, which has no HUGEINT: DuckDB would write a double. */
export function fileType(shape: Shape): string {
  return typedSqlType(shape, 'DECIMAL(38,0)', 0) ?? 'JSON';
}

/** Whether -0.0 was among the values, at any depth. */
export function hasNegativeZero({ k, e, f }: StoredShape): boolean {
  if ((k & Kind.negativeZero) !== 0) return true;
  return (e !== undefined && hasNegativeZero(e)) || (f ?? []).some(([, field]) => hasNegativeZero(field));
}

/** A shape as it is stored in journals and the store. */
export interface StoredShape {
  k: number;
  e?: StoredShape;
  f?: [string, StoredShape][];
}

/** Converts a shape for storage. */
export function storeShape(shape: Shape): StoredShape {
  const stored: StoredShape = { k: shape.kinds };
  if (shape.element !== undefined) stored.e = storeShape(shape.element);
  if (shape.fields !== undefined) stored.f = [...shape.fields].map(([name, field]) => [name, storeShape(field)]);
  return stored;
}

/** Converts a stored shape back. */
export function restoreShape(stored: StoredShape): Shape {
  const shape: Shape = { kinds: stored.k };
  if (stored.e !== undefined) shape.element = restoreShape(stored.e);
  if (stored.f !== undefined) shape.fields = new Map(stored.f.map(([name, field]) => [name, restoreShape(field)]));
  return shape;
}

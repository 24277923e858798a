import { quoteIdentifier } from '../core/sql.js';

/** The type of a stream's column. Any value may be missing, which is NULL. */
export type ColumnType =
  | { readonly kind: 'boolean' }
  /** An integer of 64 bits, with sign. */
  | { readonly kind: 'int64' }
  /** An integer of at most 38 digits, with sign. */
  | { readonly kind: 'int128' }
  | { readonly kind: 'double' }
  | { readonly kind: 'decimal'; readonly precision: number; readonly scale: number }
  | { readonly kind: 'text' }
  /** Any JSON value, as its canonical text. */
  | { readonly kind: 'json' }
  /** A moment, to the microsecond, UTC. */
  | { readonly kind: 'timestamp' }
  | { readonly kind: 'date' }
  | { readonly kind: 'list'; readonly element: ColumnType }
  | { readonly kind: 'struct'; readonly fields: readonly StructField[] };

export interface StructField {
  readonly name: string;
  readonly type: ColumnType;
}

/** A column of a stream, under the name it has in the destination. */
export interface StreamColumn {
  readonly name: string;
  readonly type: ColumnType;
  /** The same type as DuckDB writes it. */
  readonly duckdbType: string;
}

const plain: Readonly<Record<string, ColumnType>> = {
  BOOLEAN: { kind: 'boolean' },
  TINYINT: { kind: 'int64' },
  SMALLINT: { kind: 'int64' },
  INTEGER: { kind: 'int64' },
  BIGINT: { kind: 'int64' },
  UTINYINT: { kind: 'int64' },
  USMALLINT: { kind: 'int64' },
  UINTEGER: { kind: 'int64' },
  UBIGINT: { kind: 'int128' },
  HUGEINT: { kind: 'int128' },
  FLOAT: { kind: 'double' },
  DOUBLE: { kind: 'double' },
  VARCHAR: { kind: 'text' },
  JSON: { kind: 'json' },
  DATE: { kind: 'date' },
  TIMESTAMP: { kind: 'timestamp' },
  'TIMESTAMP WITH TIME ZONE': { kind: 'timestamp' },
};

/** Splits the text of a type at commas outside of quotes and brackets. */
export function typeParts(text: string): string[] {
  const names: string[] = [];
  let [depth, from] = [0, 0];
  let quote: string | undefined;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (quote !== undefined) quote = character === quote ? undefined : quote;
    else if (character === '"' || character === "'") quote = character;
    else if (character === '(' || character === '<') depth += 1;
    else if (character === ')' || character === '>') depth -= 1;
    else if (character === ',' && depth === 0) {
      names.push(text.slice(from, index).trim());
      from = index + 1;
    }
  }
  return [...names, text.slice(from).trim()];
}

/** The name of a struct's member, and its type as DuckDB writes it. */
function memberOf(text: string): { readonly name: string; readonly of: string } {
  const [, quoted = '', bare, of = 'VARCHAR'] = /^(?:"((?:[^"]|"")*)"|(\S+))\s+(.+)$/s.exec(text) ?? ['', '', text];
  return { name: bare ?? quoted.replaceAll('""', '"'), of };
}

function structField(text: string): StructField {
  const { name, of } = memberOf(text);
  return { name, type: parseColumnType(of) };
}

/** Parses a type as DuckDB writes it; types that streams do not have become text. */
export function parseColumnType(duckdbType: string): ColumnType {
  const text = duckdbType.trim();
  if (text.endsWith('[]')) return { kind: 'list', element: parseColumnType(text.slice(0, -2)) };
  const struct = /^STRUCT\((.*)\)$/s.exec(text);
  if (struct !== null) return { kind: 'struct', fields: typeParts(struct[1] as string).map(structField) };
  const decimal = /^DECIMAL\((\d+),\s*(\d+)\)$/.exec(text);
  if (decimal === null) return plain[text] ?? { kind: 'text' };
  const [precision, scale] = [Number(decimal[1]), Number(decimal[2])];
  return scale === 0 && precision === 38 ? { kind: 'int128' } : { kind: 'decimal', precision, scale };
}

/**
 * Whether two types of DuckDB are the same, however they are spelled: it shows the type that was declared as `STRUCT("a" BIGINT)` as
 * `STRUCT(a BIGINT)`.
 */
export function isSameDuckdbType(one: string, other: string): boolean {
  return plainSpelling(one) === plainSpelling(other);
}

/** A type in one spelling. @param leaf of a type without parts */
function plainSpelling(type: string, leaf = (text: string) => text): string {
  const text = type.trim();
  const element = /^(.*)\[\d*\]$/s.exec(text)?.[1];
  if (element !== undefined) return `${plainSpelling(element, leaf)}[]`;
  const struct = /^STRUCT\((.*)\)$/s.exec(text)?.[1];
  if (struct === undefined) return leaf(text.replace(/^(DECIMAL\(\d+), +/, '$1,'));
  const members = typeParts(struct).map((part) => {
    const { name, of } = memberOf(part);
    return `${quoteIdentifier(name)} ${plainSpelling(of, leaf)}`;
  });
  return `STRUCT(${members.join(', ')})`;
}

const otherTypes: Readonly<Record<string, string>> = { FLOAT: 'DOUBLE', VARIANT: 'JSON' };

/**
 * The type, as DuckDB spells it, that values of any type of DuckDB are cast to: those that no {@link ColumnType} has become texts, also
 * inside of lists and structs, where moments have their zone, as a destination's own have; lists of one length are lists.
 */
export function streamType(duckdbType: string): string {
  const isLeaf = duckdbType in plain;
  const leaf = (text: string) => {
    if (text === 'TIMESTAMP' && !isLeaf) return 'TIMESTAMP WITH TIME ZONE';
    return otherTypes[text] ?? (text in plain || text.startsWith('DECIMAL(') ? text : 'VARCHAR');
  };
  const spelled = plainSpelling(duckdbType, leaf);
  return spelled === plainSpelling(duckdbType) && !/\[\d+\]/.test(duckdbType) ? duckdbType : spelled;
}

/** Whether values of the type have parts. */
export function isNested({ kind }: ColumnType): boolean {
  return kind === 'list' || kind === 'struct';
}

/** Whether a column that was declared with one type holds every value of the other, exactly, whatever the destination. */
export function holdsEverywhere(declared: ColumnType, current: ColumnType): boolean {
  if (JSON.stringify(declared) === JSON.stringify(current)) return true;
  const isNested = current.kind === 'list' || current.kind === 'struct';
  if (declared.kind === 'text') return !isNested && current.kind !== 'json';
  if (declared.kind === 'json')
    return isNested || current.kind === 'boolean' || current.kind === 'int64' || current.kind === 'int128';
  if (declared.kind === 'int128') return current.kind === 'int64';
  if (declared.kind !== 'decimal') return false;
  const whole = declared.precision - declared.scale;
  if (current.kind === 'int64') return whole >= 19;
  return current.kind === 'decimal' && current.scale <= declared.scale && current.precision - current.scale <= whole;
}

/** Whether a value of the type is stored as JSON where a database has JSON, but no lists or structs. */
function isStoredAsJson({ kind }: ColumnType): boolean {
  return kind === 'json' || kind === 'list' || kind === 'struct';
}

/** {@link holdsEverywhere}, for a destination that stores lists, structs and JSON as one type. */
export function holdsAsJson(declared: ColumnType, current: ColumnType): boolean {
  return holdsEverywhere(declared, current) || (isStoredAsJson(declared) && isStoredAsJson(current));
}

/** For a destination whose DDL gives a decimal more digits, but no more of them behind the point. */
export function widensDecimal(declared: ColumnType, current: ColumnType): boolean {
  if (declared.kind !== 'decimal' || current.kind !== 'decimal') return false;
  return declared.scale === current.scale && declared.precision <= current.precision;
}

/** For a destination whose DDL makes a 64-bit integer a longer one or, if it never had one that a double cannot hold, a double. */
export function widensInteger(declared: ColumnType, current: ColumnType): boolean {
  return declared.kind === 'int64' && (current.kind === 'int128' || current.kind === 'double');
}

/** SQL of a decimal's text, without its bare point: `.5` becomes `0.5`. */
export function decimalText(value: string): string {
  return `regexp_replace((${value})::VARCHAR, '^(-?)[.]', '\\10.')`;
}

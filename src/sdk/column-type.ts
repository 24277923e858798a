import { quoteIdentifier, sqlText } from '../core/sql.js';

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
  const found: string[] = [];
  let [depth, quoted, from] = [0, false, 0];
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (character === '"') quoted = !quoted;
    else if (quoted) continue;
    else if (character === '(' || character === '<') depth += 1;
    else if (character === ')' || character === '>') depth -= 1;
    else if (character === ',' && depth === 0) {
      found.push(text.slice(from, index).trim());
      from = index + 1;
    }
  }
  return [...found, text.slice(from).trim()];
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

function plainSpelling(type: string): string {
  const text = type.trim();
  if (text.endsWith('[]')) return `${plainSpelling(text.slice(0, -2))}[]`;
  const struct = /^STRUCT\((.*)\)$/s.exec(text)?.[1];
  if (struct === undefined) return text.replace(/^(DECIMAL\(\d+), +/, '$1,');
  const members = typeParts(struct).map((part) => {
    const { name, of } = memberOf(part);
    return `${quoteIdentifier(name)} ${plainSpelling(of)}`;
  });
  return `STRUCT(${members.join(', ')})`;
}

/** Whether values of the type have parts. */
export function isNested({ kind }: ColumnType): boolean {
  return kind === 'list' || kind === 'struct';
}

/** Whether a column that was declared with one type holds every value of the other, exactly, whatever the destination. */
export function holdsEverywhere(declared: ColumnType, now: ColumnType): boolean {
  if (JSON.stringify(declared) === JSON.stringify(now)) return true;
  const isNested = now.kind === 'list' || now.kind === 'struct';
  if (declared.kind === 'text') return !isNested && now.kind !== 'json';
  if (declared.kind === 'json')
    return isNested || now.kind === 'boolean' || now.kind === 'int64' || now.kind === 'int128';
  if (declared.kind === 'int128') return now.kind === 'int64';
  if (declared.kind !== 'decimal') return false;
  const whole = declared.precision - declared.scale;
  if (now.kind === 'int64') return whole >= 19;
  return now.kind === 'decimal' && now.scale <= declared.scale && now.precision - now.scale <= whole;
}

/** Whether a value of the type is stored as JSON where a database has JSON, but no lists or structs. */
function isStoredAsJson({ kind }: ColumnType): boolean {
  return kind === 'json' || kind === 'list' || kind === 'struct';
}

/** {@link holdsEverywhere}, for a destination that stores lists, structs and JSON as one type. */
export function holdsAsJson(declared: ColumnType, now: ColumnType): boolean {
  return holdsEverywhere(declared, now) || (isStoredAsJson(declared) && isStoredAsJson(now));
}

/** For a destination whose DDL gives a decimal more digits, but no more of them behind the point. */
export function widensDecimal(declared: ColumnType, now: ColumnType): boolean {
  if (declared.kind !== 'decimal' || now.kind !== 'decimal') return false;
  return declared.scale === now.scale && declared.precision <= now.precision;
}

/** For a destination whose DDL makes a 64-bit integer a longer one or, if it never had one that a double cannot hold, a double. */
export function widensInteger(declared: ColumnType, now: ColumnType): boolean {
  return declared.kind === 'int64' && (now.kind === 'int128' || now.kind === 'double');
}

/** SQL of a decimal's text, without its bare point: `.5` becomes `0.5`. */
export function decimalText(value: string): string {
  return `regexp_replace((${value})::VARCHAR, '^(-?)[.]', '\\10.')`;
}

/** Whether DuckDB writes some value of the type as text that is no JSON. */
function isRisky(type: ColumnType): boolean {
  if (type.kind === 'list') return isRisky(type.element);
  if (type.kind === 'struct') return type.fields.some((field) => isRisky(field.type));
  return type.kind === 'double' || (type.kind === 'decimal' && type.precision <= type.scale);
}

/**
 * SQL for a value that `to_json` and JSON files of DuckDB write as JSON, whatever it is and has in it: NaN and infinities, which
 * JSON lacks, become NULL, and 0.5 of `DECIMAL(18,18)` is not written as `.5`.
 * @param value SQL for a value of the type
 */
export function jsonValueSql(value: string, type: ColumnType, depth = 0): string {
  if (!isRisky(type)) return value;
  if (type.kind === 'list') {
    const element = `e${depth}`;
    return `list_transform(${value}, lambda ${element}: ${jsonValueSql(element, type.element, depth + 1)})`;
  }
  if (type.kind === 'struct') {
    const fields = type.fields.map(
      ({ name, type: of }) => `${sqlText(name)}: ${jsonValueSql(`(${value}).${quoteIdentifier(name)}`, of, depth)}`,
    );
    return `CASE WHEN ${value} IS NOT NULL THEN {${fields.join(', ')}} END`;
  }
  if (type.kind === 'double') return `CASE WHEN isfinite(${value}) THEN ${value} END`;
  return `${decimalText(value)}::JSON`;
}

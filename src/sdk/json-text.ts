import { quoteIdentifier, sqlText } from '../core/sql.js';
import { type ColumnType, decimalText, isNested } from './column-type.js';

/** Whether DuckDB writes some value of the type as text that is no JSON. */
function isRisky(type: ColumnType): boolean {
  if (type.kind === 'list') return isRisky(type.element);
  if (type.kind === 'struct') return type.fields.some((field) => isRisky(field.type));
  return type.kind === 'double' || (type.kind === 'decimal' && type.precision <= type.scale);
}

/**
 * SQL for a value that `to_json` writes as JSON, whatever it is and has in it: NaN and infinities, which JSON lacks, become NULL, and
 * 0.5 of `DECIMAL(18,18)` is not written as `.5`.
 */
function jsonValueSql(value: string, type: ColumnType, depth = 0): string {
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

/** Whether `to_json` gives numbers in some value of the type other digits: it writes those inside of JSON as doubles. */
function isInexact(type: ColumnType): boolean {
  if (type.kind === 'list') return isInexact(type.element);
  if (type.kind === 'struct') return type.fields.some((field) => isInexact(field.type));
  return type.kind === 'json' || (type.kind === 'decimal' && type.precision <= type.scale);
}

/** A member of a JSON object: SQL of its value, and the value's type. */
export interface JsonMember {
  readonly name: string;
  readonly value: string;
  readonly type: ColumnType;
}

/** Strings of JSON as they are, and blanks outside of them. */
const stringOrBlanks = String.raw`("(?:[^"\\]|\\.)*")|\s+`;

/**
 * SQL of a value's JSON text, digit for digit; NULL for NULL, and for what JSON lacks. Lists and structs have no blanks between their
 * parts, as all readers of JSON write them. @param value SQL of a value of the type
 */
export function jsonText(value: string, type: ColumnType): string {
  const text = textOf(value, type, 0);
  return isNested(type) && isInexact(type) ? `regexp_replace(${text}, ${sqlText(stringOrBlanks)}, '\\1', 'g')` : text;
}

function textOf(value: string, type: ColumnType, depth: number): string {
  // Line breaks can be between the parts of a JSON text, but not in a line of a file.
  if (type.kind === 'json')
    return `CASE WHEN contains(${value}, chr(10)) OR contains(${value}, chr(13)) THEN translate(${value}, chr(10) || chr(13), '  ') ELSE (${value})::VARCHAR END`;
  if (!isInexact(type)) return `to_json(${jsonValueSql(value, type)})::VARCHAR`;
  if (type.kind === 'list') {
    const element = `e${depth}`;
    const texts = `list_transform(${value}, lambda ${element}: coalesce(${textOf(element, type.element, depth + 1)}, 'null'))`;
    return `'[' || array_to_string(${texts}, ',') || ']'`;
  }
  if (type.kind !== 'struct') return decimalText(value);
  const members = type.fields.map(({ name, type: of }) => ({
    name,
    value: `(${value}).${quoteIdentifier(name)}`,
    type: of,
  }));
  return `CASE WHEN ${value} IS NOT NULL THEN ${objectOf(members, depth, textOf)} END`;
}

/** SQL of the text of a JSON object with these members, digit for digit. */
export function objectText(members: readonly JsonMember[]): string {
  return objectOf(members, 0, jsonText);
}

function objectOf(members: readonly JsonMember[], depth: number, text: typeof textOf): string {
  if (!members.some(({ type }) => isInexact(type))) {
    const values = members.map(({ name, value, type }) => `${sqlText(name)}: ${jsonValueSql(value, type, depth)}`);
    return `to_json({${values.join(', ')}})::VARCHAR`;
  }
  const texts = members.flatMap(({ name, value, type }, index) => [
    sqlText(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`),
    `coalesce(${text(value, type, depth)}, 'null')`,
  ]);
  return `concat(${[...texts, "'}'"].join(', ')})`;
}

import { emptyShape, Kind, type Shape } from '../../columns/column-shape.js';
import { momentText, shapedText } from '../../columns/masked-value.js';
import { type TextFormat, textValueSql } from '../../columns/text-format.js';
import { sqlText } from '../../core/sql.js';
import { type ColumnType, decimalText, isNested, parseColumnType } from '../../sdk/column-type.js';
import { jsonText } from '../../sdk/json-text.js';

/** A value of the stream: SQL of it, its type, and how its texts were written if they became values of this type. */
export interface StreamValue {
  readonly value: string;
  readonly type: ColumnType;
  /** As DuckDB spells it. */
  readonly duckdbType: string;
  readonly form?: TextFormat | undefined;
}

/**
 * SQL of a value as text, whatever its type: texts as they are, also those inside of a JSON column; numbers digit for digit; times
 * as ISO 8601; lists and objects as JSON. NULL stays NULL.
 */
export function valueText({ value, type, form }: Omit<StreamValue, 'duckdbType'>): string {
  if (form !== undefined) return form.text(value);
  switch (type.kind) {
    case 'text':
      return value;
    case 'timestamp':
      return momentText(value);
    case 'decimal':
      return decimalText(value);
    case 'json':
      return `CASE WHEN json_type(${value}) = 'VARCHAR' THEN ${value} ->> '$' ELSE (${value})::VARCHAR END`;
    case 'list':
    case 'struct':
      return jsonText(value, type);
    default:
      return `(${value})::VARCHAR`;
  }
}

const isNumber = ({ kind }: ColumnType) =>
  kind === 'int64' || kind === 'int128' || kind === 'double' || kind === 'decimal';

/** The type that a column was declared with. */
interface DeclaredType {
  readonly type: ColumnType;
  /** As DuckDB spells it. */
  readonly duckdbType: string;
  /** The format of texts that are values of it; undefined if it never had texts. */
  readonly form?: TextFormat | undefined;
}

/** Most that an integer of a stream is from zero: in files it has 38 digits, and DuckDB's type holds some of 39. */
const maxInteger = `${'9'.repeat(38)}::HUGEINT`;

/** An integer, or NULL if no file can have it. */
function within38Digits(integer: string): string {
  return `CASE WHEN ${integer} BETWEEN -${maxInteger} AND ${maxInteger} THEN ${integer} END`;
}

/** The value of another type of numbers if a cast there and back gives it again, else NULL. */
function ofNumber({ value, duckdbType: from }: StreamValue, { type, duckdbType: to }: DeclaredType): string {
  const isBack = (sql: string) => `TRY_CAST(${sql} AS ${from}) IS NOT DISTINCT FROM ${value}`;
  // Between doubles and decimals, DuckDB's cast of a number rounds a long one, and that of its text does not.
  const isByText = /DOUBLE.*DECIMAL|DECIMAL.*DOUBLE/.test(from + to);
  const typed = isByText ? `TRY_CAST((${value})::VARCHAR AS ${to})` : `TRY_CAST(${value} AS ${to})`;
  const isExact = isByText ? `${isBack(typed)} AND ${isBack(`(${typed})::VARCHAR`)}` : isBack(typed);
  return `CASE WHEN ${isExact} THEN ${type.kind === 'int128' ? within38Digits(typed) : typed} END`;
}

const isoMoment = '[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?Z';
const plainNumber = '-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?';

/** The digits of a number's text, without sign, point, exponent and zeros at the ends: all of it but its size. */
function digitsOf(text: string): string {
  const plain = `regexp_replace(regexp_replace(${text}, '[eE].*$', ''), '[-.]', '', 'g')`;
  return `regexp_replace(${plain}, '^0+|0+$', '', 'g')`;
}

/** The value of a text without a known format if it is written as that value is, else NULL. */
function ofText(text: string, { type, duckdbType, form }: DeclaredType): string {
  if (form !== undefined) return textValueSql(text, form);
  const typed = `TRY_CAST(${text} AS ${duckdbType})`;
  switch (type.kind) {
    case 'boolean':
      return `CASE ${text} WHEN 'true' THEN true WHEN 'false' THEN false END`;
    case 'timestamp':
      return `CASE WHEN regexp_full_match(${text}, ${sqlText(isoMoment)}) THEN ${typed} END`;
    case 'double':
    case 'decimal': {
      // `1.0` and `1`, `1e-7` and `1e-07` are one number; a zero in front is not written by numbers.
      const isSame = `${digitsOf(text)} = ${digitsOf(`(${typed})::VARCHAR`)}`;
      return `CASE WHEN regexp_full_match(${text}, ${sqlText(plainNumber)}) AND ${isSame} THEN ${typed} END`;
    }
    case 'int128':
      return `CASE WHEN (${typed})::VARCHAR = ${text} THEN ${within38Digits(typed)} END`;
    default:
      return `CASE WHEN ${valueText({ value: typed, type })} = ${text} THEN ${typed} END`;
  }
}

/** The shape that values of a type have, as far as their canonical text needs it. */
function shapeOf(type: ColumnType): Shape {
  if (type.kind === 'list') return { kinds: Kind.list, element: shapeOf(type.element) };
  if (type.kind === 'double') return { kinds: Kind.double };
  if (type.kind !== 'struct') return emptyShape();
  return { kinds: Kind.struct, fields: new Map(type.fields.map(({ name, type: of }) => [name, shapeOf(of)])) };
}

/**
 * The list or object of a JSON value, or of one of another type, if it is written as that value is, else NULL. In a snapshot, the
 * members of JSON are sorted, and never NULL.
 */
function ofNested(from: StreamValue, { duckdbType }: DeclaredType): string {
  // Integers of 39 digits fit into DuckDB's type, and into no file.
  const inFile = duckdbType.replaceAll(/("(?:[^"]|"")*")|HUGEINT/g, (_, name) => name ?? 'DECIMAL(38,0)');
  const typed = `TRY_CAST(${from.value} AS ${inFile})`;
  const type = parseColumnType(inFile);
  const text = isNested(from.type) ? shapedText(from.value, shapeOf(from.type)) : valueText(from);
  const value = inFile === duckdbType ? typed : `(${typed})::${duckdbType}`;
  return `CASE WHEN ${text} IN (${shapedText(typed, shapeOf(type))}, ${jsonText(typed, type)}) THEN ${value} END`;
}

/** SQL of a stream's value in the type that a column was declared with: exactly the value, or NULL if the type cannot hold it. */
export function exactValue(from: StreamValue, as: DeclaredType): string {
  const { value, type, duckdbType } = from;
  const to = as.type;
  if (duckdbType === as.duckdbType) return value;
  if (to.kind === 'text') return valueText(from);
  if (to.kind === 'json')
    return isNested(type) || isNumber(type) || type.kind === 'boolean' ? `${jsonText(value, type)}::JSON` : 'NULL';
  if (isNumber(type) && isNumber(to)) return ofNumber(from, as);
  if (isNested(to)) return type.kind === 'json' || isNested(type) ? ofNested(from, as) : 'NULL';
  if (isNested(type)) return 'NULL';
  // Between a date and a time, a boolean and a number: whatever both write alike.
  return ofText(valueText(from), as);
}

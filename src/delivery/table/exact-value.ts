import { momentText } from '../../columns/masked-value.js';
import type { TextFormat } from '../../columns/text-format.js';
import { sqlText } from '../../core/sql.js';
import { type ColumnType, decimalText, isNested, jsonValueSql } from '../../sdk/column-type.js';

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
      return `CASE WHEN ${value} IS NOT NULL THEN to_json(${jsonValueSql(value, type)})::VARCHAR END`;
    default:
      return `(${value})::VARCHAR`;
  }
}

const isNumber = ({ kind }: ColumnType) =>
  kind === 'int64' || kind === 'int128' || kind === 'double' || kind === 'decimal';

/** The value if a cast there and back gives it again, else NULL. */
function roundTrip(value: string, from: string, to: string): string {
  const isBack = (sql: string) => `TRY_CAST(${sql} AS ${from}) IS NOT DISTINCT FROM ${value}`;
  const there = (sql: string) => `TRY_CAST(${sql} AS ${to})`;
  if (!/DOUBLE.*DECIMAL|DECIMAL.*DOUBLE/.test(from + to))
    return `CASE WHEN ${isBack(there(value))} THEN ${there(value)} END`;
  // Between these two, DuckDB's cast of a number rounds a long one, and that of its text does not.
  const typed = there(`(${value})::VARCHAR`);
  return `CASE WHEN ${isBack(typed)} AND ${isBack(`(${typed})::VARCHAR`)} THEN ${typed} END`;
}

const isoMoment = '[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?Z';

/** The value of a text if it is written as that value is, else NULL. */
function ofText(text: string, type: ColumnType, duckdbType: string): string {
  if (type.kind === 'boolean') return `CASE ${text} WHEN 'true' THEN true WHEN 'false' THEN false END`;
  const typed = `TRY_CAST(${text} AS ${duckdbType})`;
  if (type.kind === 'timestamp') {
    return `CASE WHEN regexp_full_match(${text}, ${sqlText(isoMoment)}) THEN ${typed} END`;
  }
  // `1.0` and `1` are the same number; a zero in front is not written by numbers.
  if (type.kind === 'double') {
    const isPlain = `regexp_full_match(${text}, '-?(0|[1-9][0-9]*)([.][0-9]+)?(e[+-]?[0-9]+)?')`;
    return `CASE WHEN ${isPlain} AND ${valueText({ value: typed, type })} IN (${text}, ${text} || '.0') THEN ${typed} END`;
  }
  return `CASE WHEN ${valueText({ value: typed, type })} = ${text} THEN ${typed} END`;
}

/**
 * SQL of a stream's value in the type that a column was declared with: exactly the value, or NULL if the type cannot hold it.
 * @param as the declared type, and as DuckDB spells it
 */
export function exactValue(from: StreamValue, as: { readonly type: ColumnType; readonly duckdbType: string }): string {
  const { value, type, duckdbType } = from;
  const to = as.type;
  if (duckdbType === as.duckdbType) return value;
  if (to.kind === 'text') return valueText(from);
  if (to.kind === 'json') return isNested(type) || isNumber(type) || type.kind === 'boolean' ? jsonOf(from) : 'NULL';
  if (isNumber(type) && isNumber(to)) return roundTrip(value, duckdbType, as.duckdbType);
  if (isNested(to)) {
    if (type.kind !== 'json' && !isNested(type)) return 'NULL';
    const typed = `TRY_CAST(${value} AS ${as.duckdbType})`;
    const there = `to_json(${jsonValueSql(typed, to)})::VARCHAR`;
    return `CASE WHEN ${there} = ${valueText(from)} THEN ${typed} END`;
  }
  if (isNested(type)) return 'NULL';
  // Between a date and a time, a truth and a number: whatever both write alike.
  return ofText(valueText(from), to, as.duckdbType);
}

function jsonOf({ value, type }: StreamValue): string {
  return `CASE WHEN (${value}) IS NOT NULL THEN to_json(${jsonValueSql(value, type)}) END`;
}

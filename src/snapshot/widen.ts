import { emptyShape, fileType, Kind, quoteIdentifier, type Shape, sqlType } from '../core/column-shape.js';
import { type Column, ColumnSet, type StoredColumn } from '../core/columns.js';
import { sqlText } from '../store/duckdb.js';

/** SQL for the canonical JSON text of a typed value that is not NULL: members that are NULL left out, names sorted. */
function canonicalText(value: string, shape: Shape, depth: number): string {
  if (shape.kinds === Kind.list) {
    const element = `e${depth}`;
    const text = canonicalText(element, shape.element ?? emptyShape(), depth + 1);
    const texts = `list_transform(${value}, lambda ${element}: CASE WHEN ${element} IS NULL THEN 'null' ELSE ${text} END)`;
    return `'[' || coalesce(array_to_string(${texts}, ','), '') || ']'`;
  }
  if (shape.kinds === Kind.struct) {
    const members = [...(shape.fields ?? [])]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, field]) => {
        const member = `${value}.${quoteIdentifier(name)}`;
        const label = `to_json(${sqlText(name)})::VARCHAR || ':'`;
        return `CASE WHEN ${member} IS NULL THEN NULL ELSE ${label} || ${canonicalText(member, field, depth)} END`;
      });
    return `'{' || concat_ws(',', ${members.join(', ')}) || '}'`;
  }
  if ((shape.kinds & Kind.double) !== 0) {
    // As 5 and 5.0 are one value in a DOUBLE column, they have one text: a whole number is written like an integer.
    const whole = `${value} = trunc(${value}) AND abs(${value}) <= 9007199254740992 AND NOT (${value} = 0 AND signbit(${value}))`;
    return `CASE WHEN ${whole} THEN ${value}::BIGINT::VARCHAR ELSE to_json(${value})::VARCHAR END`;
  }
  return `to_json(${value})::VARCHAR`;
}

/** The structure that `json_transform` is to give, as JSON: where a member is absent it gives NULL, which a cast refuses. */
function jsonStructure(shape: Shape, leaf: (shape: Shape) => string): unknown {
  if (shape.kinds === Kind.list) return [jsonStructure(shape.element ?? emptyShape(), leaf)];
  if (shape.kinds !== Kind.struct) return leaf(shape);
  return Object.fromEntries([...(shape.fields ?? [])].map(([name, field]) => [name, jsonStructure(field, leaf)]));
}

function widened(from: Column, to: Column, form: 'table' | 'file'): string {
  const value = quoteIdentifier(from.name);
  const type = form === 'table' ? to.type : to.fileType;
  // Nothing but NULL stands in it, whatever type it was given meanwhile.
  if (from.shape.kinds === 0 && from.declared === undefined) return `NULL::${type}`;
  if (to.type === 'JSON' && from.type !== 'JSON') {
    return `CASE WHEN ${value} IS NULL THEN NULL ELSE ${canonicalText(value, from.shape, 0)} END::JSON`;
  }
  // A shape whose only objects were empty has become one with members.
  if (from.type === 'JSON' && type !== 'JSON') {
    const structure = JSON.stringify(jsonStructure(to.shape, form === 'table' ? sqlType : fileType));
    return `json_transform(${value}, ${sqlText(structure)})::${type}`;
  }
  if (from.type.startsWith('TIMESTAMP') && type === 'VARCHAR') return `strftime(${value}, '%Y-%m-%dT%H:%M:%S.%gZ')`;
  return `${value}::${type}`;
}

/**
 * SQL that selects the columns of `to` from rows that have those of `from`, without losing a value: as tables have them, or
 * as Parquet files do. What `from` lacks is NULL.
 */
export function widen(from: readonly StoredColumn[], to: readonly StoredColumn[], form: 'table' | 'file'): string {
  const source = ColumnSet.restore(from);
  return ColumnSet.restore(to)
    .list.map((column) => {
      const type = form === 'table' ? column.type : column.fileType;
      const found = source.get(column.place, column.field);
      const value = found === undefined ? `NULL::${type}` : widened(found, column, form);
      return `${value} AS ${quoteIdentifier(column.name)}`;
    })
    .join(', ');
}

/** Whether rows with the columns of `from` can stand beside rows with those of `to` as they are. */
export function sameColumns(
  from: readonly StoredColumn[],
  to: readonly StoredColumn[],
  form: 'table' | 'file',
): boolean {
  if (from.length !== to.length) return false;
  const target = ColumnSet.restore(to).list;
  return ColumnSet.restore(from).list.every((column, index) => {
    const other = target[index] as Column;
    const same = form === 'table' ? column.type === other.type : column.fileType === other.fileType;
    return same && column.name === other.name && column.place === other.place && column.field === other.field;
  });
}

import { quoteIdentifier, sqlText } from '../core/sql.js';
import { emptyShape, fileType, Kind, type Shape, sqlType } from './column-shape.js';
import { type Column, ColumnSet, type ColumnTreatment, type StoredColumn } from './columns.js';
import { canonicalText, treated } from './value-text.js';

/** The structure for `json_transform`, as JSON. It gives NULL for an absent member, where a cast would fail. */
function jsonStructure(shape: Shape, leaf: (shape: Shape) => string): unknown {
  if (shape.kinds === Kind.list) return [jsonStructure(shape.element ?? emptyShape(), leaf)];
  if (shape.kinds !== Kind.struct) return leaf(shape);
  return Object.fromEntries([...(shape.fields ?? [])].map(([name, field]) => [name, jsonStructure(field, leaf)]));
}

type Treated = Column & { readonly treatment: ColumnTreatment };

/** Whether values that were kept as they came are now hashed or masked. */
export function isNewlyTreated(from: Pick<Column, 'treatment'>, to: Column): to is Treated {
  const hides = (treatment: ColumnTreatment | undefined) =>
    treatment?.hash !== undefined || treatment?.mask !== undefined;
  return hides(to.treatment) && !hides(from.treatment);
}

function widened(from: Column, to: Column, form: 'table' | 'file'): string {
  const value = quoteIdentifier(from.name);
  const type = form === 'table' ? to.type : to.fileType;
  if (isNewlyTreated(from, to)) return `${treated(value, from, to.treatment)}::${type}`;
  // The column holds only NULL, whatever type it has been given.
  if (from.shape.kinds === 0 && from.declared === undefined) return `NULL::${type}`;
  if (to.type === 'JSON' && from.type !== 'JSON') {
    return `CASE WHEN ${value} IS NULL THEN NULL ELSE ${canonicalText(value, from.shape)} END::JSON`;
  }
  // So far all objects of the column were empty, which makes it JSON; now they have members.
  if (from.type === 'JSON' && type !== 'JSON') {
    const structure = JSON.stringify(jsonStructure(to.shape, form === 'table' ? sqlType : fileType));
    return `json_transform(${value}, ${sqlText(structure)})::${type}`;
  }
  // The rule for the type is newer than the values: an old value that does not fit becomes NULL.
  if (to.treatment?.cast !== undefined && from.treatment?.cast !== to.treatment.cast)
    return `TRY_CAST(${value} AS ${type})`;
  if (from.type.startsWith('TIMESTAMP') && type === 'VARCHAR') return `strftime(${value}, '%Y-%m-%dT%H:%M:%S.%gZ')`;
  return `${value}::${type}`;
}

/** SQL for one column of rows that have the columns of `source`; NULL where they lack it. */
export function widenedColumn(source: ColumnSet, column: Column, form: 'table' | 'file'): string {
  const found = source.get(column.place, column.field);
  if (found !== undefined) return widened(found, column, form);
  return `NULL::${form === 'table' ? column.type : column.fileType}`;
}

/**
 * SQL that selects the columns of `to` from rows with the columns of `from`, for tables or for Parquet files. A column that
 * `from` lacks is NULL. No value is lost, unless a rule now hashes or masks it, or asks for a type that it does not fit.
 */
export function widen(from: readonly StoredColumn[], to: readonly StoredColumn[], form: 'table' | 'file'): string {
  const source = ColumnSet.restore(from);
  return ColumnSet.restore(to)
    .list.map((column) => `${widenedColumn(source, column, form)} AS ${quoteIdentifier(column.name)}`)
    .join(', ');
}

/** Whether rows with the columns of `from` can stand, unchanged, beside rows with the columns of `to`. */
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
    const treatedAlike = JSON.stringify(column.treatment) === JSON.stringify(other.treatment);
    return (
      same && treatedAlike && column.name === other.name && column.place === other.place && column.field === other.field
    );
  });
}

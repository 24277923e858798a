import { quoteIdentifier, sqlText } from '../core/sql.js';
import { emptyShape, fileType, Kind, type Shape, sqlType } from './column-shape.js';
import { type Column, type ColumnMask, ColumnSet, type StoredColumn } from './columns.js';
import { canonicalText, fitting, formerText, maskedValueSql, plainText as textOf } from './masked-value.js';
import { mergeTextFormats, parseTextCode, plainText } from './text-code.js';

/** The structure for `json_transform`, as JSON. It gives NULL for an absent member, where a cast would fail. */
function jsonStructure(shape: Shape, leaf: (shape: Shape) => string): unknown {
  if (shape.kinds === Kind.list) return [jsonStructure(shape.element ?? emptyShape(), leaf)];
  if (shape.kinds !== Kind.struct) return leaf(shape);
  return Object.fromEntries([...(shape.fields ?? [])].map(([name, field]) => [name, jsonStructure(field, leaf)]));
}

type Treated = Column & { readonly treatment: ColumnMask };

/** Whether values that were kept as they came are now hashed or masked. */
export function isNewlyMasked(from: Pick<Column, 'treatment'>, to: Column): to is Treated {
  const hides = (treatment: ColumnMask | undefined) => treatment?.hash !== undefined || treatment?.mask !== undefined;
  return hides(to.treatment) && !hides(from.treatment);
}

/** The column as one of texts. */
function asText(column: Column): Column {
  return column.form === undefined ? column : { ...column, form: undefined, type: 'VARCHAR', fileType: 'VARCHAR' };
}

function widened(from: Column, to: Column, form: 'table' | 'file'): string {
  const name = quoteIdentifier(from.name);
  if (from.form === to.form && !isNewlyMasked(from, to)) return rewidened(name, from, to, form);
  const value = rewidened(from.form?.text(name) ?? name, asText(from), asText(to), form);
  return to.form?.typed(value, form) ?? value;
}

/** The same for columns whose texts are kept alike. */
function rewidened(value: string, from: Column, to: Column, form: 'table' | 'file'): string {
  const type = form === 'table' ? to.type : to.fileType;
  if (isNewlyMasked(from, to)) return `${maskedValueSql(value, from, to.treatment)}::${type}`;
  // The column holds only NULL, whatever type it has been given.
  if (!holdsValues(from)) return `NULL::${type}`;
  if (to.type === 'JSON' && from.type !== 'JSON') {
    return `CASE WHEN ${value} IS NULL THEN NULL ELSE ${canonicalText(value, from.shape)} END::JSON`;
  }
  // So far all objects of the column were empty, which makes it JSON; now they have members.
  if (from.type === 'JSON' && type !== 'JSON') {
    const structure = JSON.stringify(jsonStructure(to.shape, form === 'table' ? sqlType : fileType));
    return `json_transform(${value}, ${sqlText(structure)})::${type}`;
  }
  // The rule for the type is newer than the values: an old value that does not fit becomes NULL.
  if (to.treatment?.cast !== undefined && from.treatment?.cast !== to.treatment.cast && type !== 'VARCHAR')
    return fitting(textOf(value, from), type);
  const isFormer = to.former !== undefined && from.type === to.former;
  if (type === 'VARCHAR' && (isFormer || from.type.startsWith('TIMESTAMP'))) return textOf(value, from);
  if (from.type === 'VARCHAR' && to.former !== undefined) return formerText(value, to.former);
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

/** Whether texts of a column of `from` may not have the form that the column has in `to`. */
export function narrows(from: readonly StoredColumn[], to: readonly StoredColumn[]): boolean {
  const source = ColumnSet.restore(from);
  return ColumnSet.restore(to).list.some((column) => {
    const before = source.get(column.place, column.field);
    if (column.form === undefined || before === undefined) return false;
    return holdsValues(before) && mergeTextFormats(before.text ?? plainText, column.text) !== column.text;
  });
}

function holdsValues({ shape, declared }: Column): boolean {
  return shape.kinds !== 0 || declared !== undefined;
}

function typeIn(column: Column, form: 'table' | 'file'): string {
  return form === 'table' ? column.type : column.fileType;
}

/** The columns as they are hashed: texts as texts, whatever form they have. */
export function hashedColumns(columns: readonly StoredColumn[]): StoredColumn[] {
  return columns.map(({ text: _, ...column }) => column);
}

/** Whether empty texts of the column have become NULL. */
function losesEmptyTexts({ form, text }: Column): boolean {
  return form !== undefined && text !== undefined && parseTextCode(text).hasEmpty;
}

/** Whether empty texts, where there were any, are NULL in rows of both or of none. Both must have the same columns in one order. */
export function keepEmptyTextsAlike(from: readonly StoredColumn[], to: readonly StoredColumn[]): boolean {
  const target = ColumnSet.restore(to).list;
  return ColumnSet.restore(from).list.every((column, index) => {
    const other = target[index] as Column;
    if (column.form === undefined) return !losesEmptyTexts(other);
    return other.form !== undefined || !losesEmptyTexts(column);
  });
}

/** The columns that are text in `to`, but whose empty texts have become NULL in rows with the columns of `from`. */
export function lostEmptyTexts(from: readonly StoredColumn[], to: readonly StoredColumn[]): StoredColumn[] {
  const source = ColumnSet.restore(from);
  const texts = new Set(ColumnSet.restore(to).list.flatMap(({ form, name }) => (form === undefined ? [name] : [])));
  return to.filter(({ place, field, name }) => {
    const before = source.get(place, field);
    return texts.has(name) && before !== undefined && losesEmptyTexts(before);
  });
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
    const same = column.form === other.form && typeIn(column, form) === typeIn(other, form);
    const treatedAlike = JSON.stringify(column.treatment) === JSON.stringify(other.treatment);
    return (
      same && treatedAlike && column.name === other.name && column.place === other.place && column.field === other.field
    );
  });
}

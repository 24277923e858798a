import { quoteIdentifier, sqlText } from '../core/sql.js';
import { emptyShape, fileType, Kind, type Shape, sqlType } from './column-shape.js';
import { type Column, type ColumnMask, ColumnSet, isMasked, type StoredColumn } from './columns.js';
import { fitting, formerText, maskedValueSql, shapedText, plainText as textOf } from './masked-value.js';
import { mergeTextFormats, parseTextCode, plainText } from './text-code.js';

/** The structure for `json_transform`, as JSON. An absent member becomes NULL; a cast would fail. */
function jsonStructure(shape: Shape, leaf: (shape: Shape) => string): unknown {
  if (shape.kinds === Kind.list) return [jsonStructure(shape.element ?? emptyShape(), leaf)];
  if (shape.kinds !== Kind.struct) return leaf(shape);
  return Object.fromEntries([...(shape.fields ?? [])].map(([name, field]) => [name, jsonStructure(field, leaf)]));
}

type MaskedColumn = Column & { readonly rule: ColumnMask };

/** Whether values that were stored unchanged must now be hashed or masked. */
export function isNewlyMasked(from: Pick<Column, 'rule'>, to: Column): to is MaskedColumn {
  return isMasked(to.rule) && !isMasked(from.rule);
}

/** The column without its text format. */
function asText(column: Column): Column {
  return column.form === undefined ? column : { ...column, form: undefined, type: 'VARCHAR', fileType: 'VARCHAR' };
}

function widened(from: Column, to: Column, form: 'table' | 'file'): string {
  const name = quoteIdentifier(from.name);
  if (from.form === to.form && !isNewlyMasked(from, to)) return rewidened(name, from, to, form);
  const value = rewidened(from.form?.text(name) ?? name, asText(from), asText(to), form);
  return to.form?.typed(value, form) ?? value;
}

/** The same for columns with one text format. */
function rewidened(value: string, from: Column, to: Column, form: 'table' | 'file'): string {
  const type = form === 'table' ? to.type : to.fileType;
  if (isNewlyMasked(from, to)) return `${maskedValueSql(value, from, to.rule)}::${type}`;
  // All values of the column are NULL, whatever its type.
  if (!holdsValues(from)) return `NULL::${type}`;
  if (to.type === 'JSON' && from.type !== 'JSON') {
    return `CASE WHEN ${value} IS NULL THEN NULL ELSE ${shapedText(value, from.shape)} END::JSON`;
  }
  // The column was JSON because all its objects were empty. Now they have members.
  if (from.type === 'JSON' && type !== 'JSON') {
    const structure = JSON.stringify(jsonStructure(to.shape, form === 'table' ? sqlType : fileType));
    return `json_transform(${value}, ${sqlText(structure)})::${type}`;
  }
  // The rule for the type is newer than the values. A value that does not fit becomes NULL.
  if (to.rule?.cast !== undefined && from.rule?.cast !== to.rule.cast && type !== 'VARCHAR')
    return fitting(textOf(value, from), type);
  const isFormer = to.former !== undefined && from.type === to.former;
  if (type === 'VARCHAR' && (isFormer || from.type.startsWith('TIMESTAMP'))) return textOf(value, from);
  if (from.type === 'VARCHAR' && to.former !== undefined) return formerText(value, to.former);
  return `${value}::${type}`;
}

/** SQL for one column of rows that have the columns of `source`; NULL if they lack it. */
export function widenedColumn(source: ColumnSet, column: Column, form: 'table' | 'file'): string {
  const found = source.get(column.place, column.field);
  if (found !== undefined) return widened(found, column, form);
  return `NULL::${form === 'table' ? column.type : column.fileType}`;
}

/**
 * SQL that selects the columns of `to` from rows with the columns of `from`, for tables or for Parquet files. A missing column is
 * NULL. No value is lost, unless a rule now hashes or masks it, or gives it a type that it does not fit.
 */
export function widen(from: readonly StoredColumn[], to: readonly StoredColumn[], form: 'table' | 'file'): string {
  const source = ColumnSet.restore(from);
  return ColumnSet.restore(to)
    .list.map((column) => `${widenedColumn(source, column, form)} AS ${quoteIdentifier(column.name)}`)
    .join(', ');
}

/** Whether a column of `from` may have texts that do not match its text format in `to`. */
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

/** The columns as they are hashed: without text formats. */
export function hashedColumns(columns: readonly StoredColumn[]): StoredColumn[] {
  return columns.map(({ text: _, ...column }) => column);
}

/** Whether the column's empty texts were stored as NULL. */
function losesEmptyTexts({ form, text }: Column): boolean {
  return form !== undefined && text !== undefined && parseTextCode(text).hasEmpty;
}

/** Whether both sets of columns store empty texts in the same way. They must have the same columns in the same order. */
export function keepEmptyTextsAlike(from: readonly StoredColumn[], to: readonly StoredColumn[]): boolean {
  const target = ColumnSet.restore(to).list;
  return ColumnSet.restore(from).list.every((column, index) => {
    const other = target[index] as Column;
    if (column.form === undefined) return !losesEmptyTexts(other);
    return other.form !== undefined || !losesEmptyTexts(column);
  });
}

/** The columns that are text in `to`, but whose empty texts are NULL in rows with the columns of `from`. */
export function lostEmptyTexts(from: readonly StoredColumn[], to: readonly StoredColumn[]): StoredColumn[] {
  const source = ColumnSet.restore(from);
  const texts = new Set(ColumnSet.restore(to).list.flatMap(({ form, name }) => (form === undefined ? [name] : [])));
  return to.filter(({ place, field, name }) => {
    const before = source.get(place, field);
    return texts.has(name) && before !== undefined && losesEmptyTexts(before);
  });
}

/** Whether rows with the columns of `from` need no conversion to those of `to`. */
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
    const maskedAlike = JSON.stringify(column.rule) === JSON.stringify(other.rule);
    return (
      same && maskedAlike && column.name === other.name && column.place === other.place && column.field === other.field
    );
  });
}

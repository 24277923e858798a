import { emptyShape, Kind, type Shape, sqlType } from '../../rows/column-shape.js';
import type { Column, ColumnSet } from '../../rows/columns.js';

function hasEmptyStruct(shape: Shape): boolean {
  if ((shape.kinds & Kind.struct) !== 0 && (shape.fields === undefined || shape.fields.size === 0)) return true;
  if (shape.element !== undefined && hasEmptyStruct(shape.element)) return true;
  for (const field of shape.fields?.values() ?? []) if (hasEmptyStruct(field)) return true;
  return false;
}

/** The shape as it will be once every struct that is empty so far has got a field. */
function withFields(shape: Shape): Shape {
  const filled: Shape = { kinds: shape.kinds };
  if (shape.element !== undefined) filled.element = withFields(shape.element);
  if ((shape.kinds & Kind.struct) === 0) return filled;
  filled.fields = new Map([...(shape.fields ?? [])].map(([name, field]) => [name, withFields(field)]));
  if (filled.fields.size === 0) filled.fields.set('field', emptyShape());
  return filled;
}

/**
 * Whether a column is JSON for good. One that is JSON only because its structs were empty until now (`{}` has no type) gets
 * a type with their first field; every other reason to be JSON stays.
 */
export function staysText({ shape, type, declared }: Column): boolean {
  const inferred = declared === undefined ? type : sqlType(shape);
  if (inferred !== 'JSON') return false;
  return !hasEmptyStruct(shape) || sqlType(withFields(shape)) === 'JSON';
}

/** The columns that hold JSON text. */
export function textColumns(columns: ColumnSet): ReadonlySet<Column> {
  return new Set(columns.list.filter(({ type }) => type === 'JSON'));
}

/** Whether columns hold JSON text that did not `before`: records from before that have them as what they were. */
export function becameText(columns: ColumnSet, before: ReadonlySet<Column>): boolean {
  return columns.list.some((column) => column.type === 'JSON' && !before.has(column));
}

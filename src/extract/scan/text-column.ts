import { emptyShape, Kind, type Shape, sqlType } from '../../columns/column-shape.js';
import type { Column, ColumnSet } from '../../columns/columns.js';
import { jsonBytes } from './bytes.js';

const { backslash, letterF, letterT, minus, nine, quote, zero } = jsonBytes;

function hasEmptyStruct(shape: Shape): boolean {
  if ((shape.kinds & Kind.struct) !== 0 && (shape.fields === undefined || shape.fields.size === 0)) return true;
  if (shape.element !== undefined && hasEmptyStruct(shape.element)) return true;
  for (const field of shape.fields?.values() ?? []) if (hasEmptyStruct(field)) return true;
  return false;
}

/** The shape with a field added to every empty struct. */
function withFields(shape: Shape): Shape {
  const filled: Shape = { kinds: shape.kinds };
  if (shape.element !== undefined) filled.element = withFields(shape.element);
  if ((shape.kinds & Kind.struct) === 0) return filled;
  filled.fields = new Map([...(shape.fields ?? [])].map(([name, field]) => [name, withFields(field)]));
  if (filled.fields.size === 0) filled.fields.set('field', emptyShape());
  return filled;
}

/**
 * Whether a column stays JSON for good. A column may be JSON only because its structs are empty so far (`{}` has no type): it
 * gets a type with their first field. Every other reason to be JSON stays.
 */
export function staysJson({ shape, type, declared }: Column): boolean {
  const inferred = declared === undefined ? type : sqlType(shape);
  if (inferred !== 'JSON') return false;
  return !hasEmptyStruct(shape) || sqlType(withFields(shape)) === 'JSON';
}

/** The columns of type JSON. */
export function jsonColumns(columns: ColumnSet): ReadonlySet<Column> {
  return new Set(columns.list.filter(({ type }) => type === 'JSON'));
}

/** Whether any column is JSON now but was not `before`. Earlier records have their values in the old form. */
export function becameJson(columns: ColumnSet, before: ReadonlySet<Column>): boolean {
  return columns.list.some((column) => column.type === 'JSON' && !before.has(column));
}

/** Whether the bytes are already canonical text: an integer, `true`, `false`, or a string without escapes. */
function isCanonical(bytes: Uint8Array, from: number, to: number): boolean {
  const first = bytes[from] as number;
  if (first === quote) {
    for (let index = from; index < to; index += 1) if (bytes[index] === backslash) return false;
    return true;
  }
  if (first === letterT || first === letterF) return true;
  // The canonical text of -0 is 0.
  if (first === minus && bytes[from + 1] === zero) return false;
  for (let index = first === minus ? from + 1 : from; index < to; index += 1) {
    const byte = bytes[index] as number;
    if (byte < zero || byte > nine) return false;
  }
  return true;
}

/**
 * The canonical text of the scalar between `from` and `to`, as a JSON string. Does not parse the scalar: undefined if quoting
 * its bytes is not enough. See `canonicalJson`.
 */
export function decodePlainText(bytes: Uint8Array, from: number, to: number): Buffer | undefined {
  if (!isCanonical(bytes, from, to)) return undefined;
  const isString = bytes[from] === quote;
  const text = Buffer.allocUnsafe(to - from + (isString ? 4 : 2));
  let out = 0;
  text[out++] = quote;
  for (let index = from; index < to; index += 1) {
    const byte = bytes[index] as number;
    if (byte === quote) text[out++] = backslash;
    text[out++] = byte;
  }
  text[out] = quote;
  return text;
}

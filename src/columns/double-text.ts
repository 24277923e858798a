import { areDigits, decimalPoint, isWhole, minusSign, zero } from './text-format-bytes.js';

/**
 * Notation of the shortest text of a double. The styles differ in whole numbers and in the first exponent.
 * - `5`: JavaScript: `5`, `0.00001`, `1e-7`, `100000000000000000000`, `1e+21`
 * - `5.0`: Python and DuckDB: `5.0`, `1e-05`, `1e-07`, `1e+20`, `1e+21`
 */
export type DoubleStyle = '5' | '5.0';

export const doubleStyles: readonly DoubleStyle[] = ['5', '5.0'];

/** A decimal of up to this many digits is always the shortest text of its double. */
const certainDigits = 15;
/** The exponents of numbers that are written without an exponent; `to` is excluded. */
const plainExponents = { '5': { from: -6, to: 21 }, '5.0': { from: -4, to: 16 } } as const;

/**
 * Whether the bytes are the shortest text of a double. -0.0 is excluded: Parquet's dictionaries make it 0.0. Most texts need only
 * a check of their digits, without an allocation.
 */
export function matchesDouble(bytes: Uint8Array, from: number, to: number, style: DoubleStyle): boolean {
  const first = bytes[from] === minusSign ? from + 1 : from;
  let whole = first;
  while (whole < to && bytes[whole] !== decimalPoint) whole += 1;
  if (to - first > certainDigits || !isWhole(bytes, first, whole) || !areDigits(bytes, whole + 1, to))
    return isShortest(bytes, from, to, style);
  if (whole === to) return style === '5' && (bytes[first] !== zero || first === from);
  if (whole + 1 === to) return false;
  const isZero = whole === first + 1 && bytes[first] === zero;
  if (bytes[to - 1] === zero) return style === '5.0' && to - whole === 2 && !(isZero && first > from);
  if (!isZero) return true;
  let leading = whole + 1;
  while (bytes[leading] === zero) leading += 1;
  return whole - leading >= plainExponents[style].from;
}

const number = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]\d+)?$/;

function isShortest(bytes: Uint8Array, from: number, to: number, style: DoubleStyle): boolean {
  // The longest text of a double is -2.2250738585072014e-308; the longest without an exponent has 22 digits and a sign.
  if (to - from > 25) return false;
  const text = String.fromCharCode(...bytes.subarray(from, to));
  if (!number.test(text)) return false;
  const value = Number(text);
  if (!Number.isFinite(value) || Object.is(value, -0)) return false;
  return (style === '5' ? String(value) : withPoint(value)) === text;
}

/** The shortest text of a double in the style `5.0`. */
function withPoint(value: number): string {
  const [digits = '', exponent = 0] = value.toExponential().split('e');
  const size = Number(exponent);
  const { from, to } = plainExponents['5.0'];
  if (size < from || size >= to) return `${digits}e${size < 0 ? '-' : '+'}${String(Math.abs(size)).padStart(2, '0')}`;
  const text = String(value);
  return text.includes('.') ? text : `${text}.0`;
}

/** SQL for the shortest text of a double, which is finite and not -0.0. */
export function doubleTextSql(value: string, style: DoubleStyle): string {
  if (style === '5.0') return `(${value})::VARCHAR`;
  // As JSON, DuckDB writes `5.0`, `1e21`, and all others as JavaScript does.
  const text = `to_json(${value})::VARCHAR`;
  return `CASE WHEN suffix(${text}, '.0') THEN left(${text}, -2)
    WHEN contains(${text}, 'e') THEN regexp_replace(${text}, 'e([0-9])', 'e+\\1') ELSE ${text} END`;
}

/** SQL that is true if a text, which is not NULL, is not the shortest text of a double. The same as {@link matchesDouble}. */
export function doubleMismatchSql(text: string, style: DoubleStyle): string {
  const value = `TRY_CAST(${text} AS DOUBLE)`;
  const isNumber = `regexp_full_match(${text}, '-?(0|[1-9][0-9]*)([.][0-9]+)?(e[+-][0-9]+)?')`;
  const isZero = `regexp_full_match(${text}, '-0([.]0)?')`;
  return `coalesce(NOT ${isNumber} OR ${isZero} OR NOT isfinite(${value}) OR ${doubleTextSql(value, style)} <> ${text}, true)`;
}

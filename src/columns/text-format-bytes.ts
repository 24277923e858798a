/** Checks bytes for numbers, dates and times whose values give the text back. Runs for every text, so nothing here allocates. */

export const zero = 0x30;
const nine = 0x39;
export const minusSign = 0x2d;
export const decimalPoint = 0x2e;
/** The most digits of an integer or a decimal, limited by DECIMAL(38, …). */
export const maxDigits = 38;
/** Decimals of up to this many digits are stored in eight bytes. */
export const fewDigits = 18;
/** The years that ClickHouse holds, so that no destination rejects a typed value whose text it accepts. */
export const years = { first: 1900, last: 2299 };

const longest = { positive: '9223372036854775807', negative: '9223372036854775808' };

/** Whether all bytes are ASCII digits. */
export function areDigits(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) {
    const byte = bytes[at] as number;
    if (byte < zero || byte > nine) return false;
  }
  return true;
}

/** Whether the bytes are an integer without a sign and without leading zeros. */
export function isWhole(bytes: Uint8Array, from: number, to: number): boolean {
  return to > from && (bytes[from] !== zero || to === from + 1) && areDigits(bytes, from, to);
}

function isWithinInt64(bytes: Uint8Array, from: number, to: number, bound: string): boolean {
  if (to - from !== bound.length) return to - from < bound.length;
  for (let index = 0; index < bound.length; index += 1) {
    const difference = (bytes[from + index] as number) - bound.charCodeAt(index);
    if (difference !== 0) return difference < 0;
  }
  return true;
}

/** An integer that int64, or with `isHuge` DECIMAL(38,0), holds. */
export function matchesInteger(bytes: Uint8Array, from: number, to: number, isHuge: boolean): boolean {
  const isNegative = bytes[from] === minusSign;
  const first = isNegative ? from + 1 : from;
  if (to - first > maxDigits || !isWhole(bytes, first, to)) return false;
  if (isNegative && bytes[first] === zero) return false;
  return isHuge || isWithinInt64(bytes, first, to, isNegative ? longest.negative : longest.positive);
}

/** A number with exactly `places` decimal places, and at most `digits` digits. */
export function matchesDecimal(bytes: Uint8Array, from: number, to: number, digits: number, places: number): boolean {
  const isNegative = bytes[from] === minusSign;
  const first = isNegative ? from + 1 : from;
  const point = to - places - 1;
  if (point - first > digits - places || bytes[point] !== decimalPoint) return false;
  if (!isWhole(bytes, first, point) || !areDigits(bytes, point + 1, to)) return false;
  return !isNegative || !isZero(bytes, first, to);
}

/** Whether all digits of a number are zeros. */
function isZero(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at += 1) if (bytes[at] !== zero && bytes[at] !== decimalPoint) return false;
  return true;
}

const widths: Readonly<Record<string, number>> = { Y: 4, m: 2, d: 2, H: 2, M: 2, S: 2, g: 3, f: 6 };
const daysOfMonth = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** The bytes of a format's texts, with `d` for any digit, and the offset of each part, or -1 if the format lacks it. */
interface Template {
  readonly bytes: Buffer;
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
}

const anyDigit = 0x64;

/** The template of a format of DuckDB's `strftime`. */
export function parseTemplate(format: string): Template {
  const places = new Map<string, number>();
  let text = '';
  for (let at = 0; at < format.length; at += 1) {
    if (format[at] !== '%') text += format[at];
    else {
      at += 1;
      places.set(format[at] as string, text.length);
      text += 'd'.repeat(widths[format[at] as string] as number);
    }
  }
  const place = (letter: string) => places.get(letter) ?? -1;
  return { bytes: Buffer.from(text), year: place('Y'), month: place('m'), day: place('d'), hour: place('H') };
}

function twoDigits(bytes: Uint8Array, at: number): number {
  return ((bytes[at] as number) - zero) * 10 + (bytes[at + 1] as number) - zero;
}

/** A valid date or time in this format. */
export function matchesTemplate(bytes: Uint8Array, from: number, to: number, template: Template): boolean {
  const { bytes: wanted } = template;
  if (to - from !== wanted.length) return false;
  for (let index = 0; index < wanted.length; index += 1) {
    const [byte, expected] = [bytes[from + index] as number, wanted[index] as number];
    if (expected === anyDigit ? byte < zero || byte > nine : byte !== expected) return false;
  }
  return fitsCalendar(bytes, from, template);
}

function fitsCalendar(bytes: Uint8Array, from: number, template: Template): boolean {
  const year = twoDigits(bytes, from + template.year) * 100 + twoDigits(bytes, from + template.year + 2);
  const month = twoDigits(bytes, from + template.month);
  const day = twoDigits(bytes, from + template.day);
  if (year < years.first || year > years.last || month < 1 || month > 12) return false;
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  if (day < 1 || day > (daysOfMonth[month - 1] as number) || (month === 2 && day === 29 && !isLeap)) return false;
  const hour = from + template.hour;
  // Minutes and seconds follow the hour, each after a colon.
  return (
    template.hour < 0 ||
    (twoDigits(bytes, hour) < 24 && twoDigits(bytes, hour + 3) < 60 && twoDigits(bytes, hour + 6) < 60)
  );
}

import { createHmac } from 'node:crypto';

/** A value as the service sends it: JSON text. `null` and a missing value are one. */
export type Json = string;

/** A rule of the stream, which changes the values of a column. */
export interface ColumnRule {
  readonly hash?: true;
  readonly salt?: string;
  readonly mask?: 'last4' | 'all';
  readonly drop?: true;
  readonly rename?: string;
  readonly type?: 'integer' | 'text' | 'number';
  readonly track?: false;
}

export const isNull = (value: Json | undefined): value is undefined => value === undefined || value === 'null';

/** The plain text of a value: `5` for 5 and `"5"`, JSON for lists and objects. */
export function plain(value: Json): string {
  return value.startsWith('"') ? (JSON.parse(value) as string) : value;
}

/** The text that a rule hashes or masks: objects have their members in order. */
function canonical(value: Json): string {
  if (!isNested(value)) return plain(value);
  const marked = value.replaceAll(/("(?:[^"\\]|\\.)*")|-?\d[\d.eE+-]*/g, (all, text) => text ?? `"#${all}"`);
  return JSON.stringify(sorted(JSON.parse(marked))).replaceAll(/"#(-?\d[\d.eE+-]*)"/g, '$1');
}

const isNested = (value: Json) => value.startsWith('[') || value.startsWith('{');
const isNumber = (value: Json) => /^[-\d]/.test(value);

export function ruled(rule: ColumnRule | undefined, value: Json | undefined): Json | undefined {
  if (rule?.drop || isNull(value)) return undefined;
  if (rule?.hash)
    return JSON.stringify(
      createHmac('sha256', rule.salt ?? '')
        .update(canonical(value))
        .digest('hex'),
    );
  if (rule?.mask === 'all') return '"***"';
  if (rule?.mask === 'last4') {
    const characters = [...canonical(value)];
    const shown = characters.length > 4 ? characters.slice(-4) : [];
    return JSON.stringify('*'.repeat(characters.length - shown.length) + shown.join(''));
  }
  return value;
}

/** JSON with sorted members, without NULL members: objects that are the same have the same text. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, each]) => [name, sorted(each)]));
}

/** The text of a number without what carries no value: `1.50` and `1.5`, `1.0` and `1` are one number. */
function numeral(text: string): string {
  if (/^-?\d+$/.test(text)) return text;
  const match = /^(-?\d+)\.(\d*?)0*$/.exec(text);
  if (match === null) return String(Number(text));
  return match[2] === '' ? (match[1] as string) : `${match[1]}.${match[2]}`;
}

/** The digits of a number within JSON, and its size: JSON.parse would round it. */
function exactNumber(text: string): string {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const short = digits.replace(/0+$/, '');
  return `#${sign}${short}e${Number(exponent) - fraction.length + digits.length - short.length}`;
}

/** JSON with its numbers as texts of all their digits. */
function withExactNumbers(json: string): string {
  return json.replaceAll(
    /("(?:[^"\\]|\\.)*")|-?\d[\d.eE+-]*/g,
    (all, text) => text ?? JSON.stringify(exactNumber(all)),
  );
}

function jsonText(text: string): string {
  if (isNumber(text)) return numeral(text);
  try {
    return JSON.stringify(sorted(JSON.parse(withExactNumbers(text))));
  } catch {
    return text;
  }
}

/** How deep lists and objects are in each other in JSON. */
function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

/** Whether JSON, as {@link shown} spells it, is nested beyond some levels. */
export function isDeeper(json: string, levels: number): boolean {
  return depthOf(JSON.parse(json)) > levels;
}

/** Whether JSON, as {@link shown} spells it, has a number that is neither a double nor an integer of 64 bits. */
export function hasLongNumber(json: string): boolean {
  const numbers = [...json.matchAll(/"#(-?\d*e-?\d+)"/g)].map(([, number]) => number as string);
  if (isNumber(json)) numbers.push(exactNumber(json).slice(1));
  return numbers.some((number) => {
    if (exactNumber(String(Number(number))) === `#${number}`) return false;
    const [digits = '', zeros = ''] = number.split('e');
    return !/^\d\d?$/.test(zeros) || BigInt(digits + '0'.repeat(Number(zeros))) >= 2n ** 64n;
  });
}

const isNumeric = (kind: string) => /^(BIGINT|HUGEINT|DOUBLE|DECIMAL[^[]*)$/.test(kind);
export const isJson = (kind: string) => kind === 'JSON' || kind.endsWith('[]') || kind.startsWith('STRUCT(');

/** The text that a reader shows for a value, in one spelling. */
export function shown(kind: string, text: string | null): string | null {
  if (text === null) return null;
  if (isNumeric(kind)) return numeral(text);
  if (isJson(kind)) return jsonText(text);
  return isNested(text) ? jsonText(text) : text;
}

/** Whether two texts of a variant are one value: a number may be written as the number that its column has. */
export function isSameText(one: string | null, other: string | null): boolean {
  if (one === other || one === null || other === null) return one === other;
  return /^-?\d[\d.e+-]*$/.test(one) && /^-?\d[\d.e+-]*$/.test(other) && numeral(one) === numeral(other);
}

function integer(text: string, most: bigint): string | null {
  if (!/^(0|-?[1-9]\d*)$/.test(text)) return null;
  const value = BigInt(text);
  return (value < 0n ? -value : value) <= most ? text : null;
}

function double(text: string, isFromNumber: boolean): string | null {
  if (!/^-?(0|[1-9]\d*)(\.\d+)?$/.test(text)) return null;
  const value = Number(text);
  if (/^-?\d+$/.test(text)) return BigInt(value) === BigInt(text) ? text : null;
  const written = String(value);
  return isFromNumber || written === text || `${written}.0` === text ? numeral(text) : null;
}

function decimal(kind: string, text: string, isFromNumber: boolean): string | null {
  const [, precision, scale] = /\((\d+),\s*(\d+)\)/.exec(kind) ?? [];
  if (!/^-?(0|[1-9]\d*)(\.\d+)?$/.test(text)) return null;
  const [whole = '', rest = ''] = (isFromNumber ? numeral(text) : text).split('.');
  if (whole.replace('-', '').length > Number(precision) - Number(scale)) return null;
  const fits = isFromNumber ? rest.length <= Number(scale) : rest.length === Number(scale);
  return fits ? numeral(text) : null;
}

function isoDay(text: string): string | null {
  const [, day, month, year] = /^(\d\d)\.(\d\d)\.(\d{4})$/.exec(text) ?? [];
  return year === undefined ? null : `${year}-${month}-${day}`;
}

/** A time as every target shows it. */
function moment(text: string): string | null {
  const [, day, time, fraction = ''] = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d+))?Z?$/.exec(text) ?? [];
  return day === undefined ? null : `${day}T${time}.${fraction.padEnd(6, '0')}Z`;
}

const most64 = 2n ** 63n - 1n;
const most128 = 10n ** 38n - 1n;

/** Whether a list or an object is of a declared type. */
function conforms(kind: string, value: Json): boolean {
  if (/STRUCT\("?c"? BIGINT\)/.test(kind)) return /^\{"a":\{"b":\[\{"c":\d+\}\]\}\}$/.test(value);
  const parsed = JSON.parse(value) as unknown;
  if (kind.endsWith('[]'))
    return (
      Array.isArray(parsed) &&
      parsed.every((each) => (kind.startsWith('BIGINT') ? Number.isSafeInteger(each) : typeof each === 'string'))
    );
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return false;
  return Object.entries(parsed).every(([name, each]) =>
    new RegExp(`\\b${name}"? ${typeof each === 'number' ? 'BIGINT' : 'VARCHAR'}`).test(kind),
  );
}

/**
 * The text that a column of a declared type must show for a value: exactly the value, or NULL if the type cannot hold it.
 * @param kind the declared type, as DuckDB spells it
 * @param now the type that the stream's column has
 */
export function held(kind: string, value: Json | undefined, now: string): string | null {
  if (isNull(value)) return null;
  const text = plain(value);
  if (kind === 'VARCHAR') return shown(kind, isJson(now) && isNested(value) ? value : text);
  if (isJson(kind)) {
    if (kind === 'JSON' && now === 'JSON') return jsonText(value);
    if (kind === 'JSON') return isNumeric(now) || now === 'BOOLEAN' || isJson(now) ? jsonText(text) : null;
    return isNested(value) && conforms(kind, value) ? jsonText(value) : null;
  }
  if (isNested(value)) return null;
  const isFromNumber = isNumeric(now);
  // A column has texts of one notation, and `n/a`.
  if (kind === 'BOOLEAN') return /^(true|false)$/i.test(text) ? text.toLowerCase() : null;
  if (kind === 'DATE') return /^\d{4}-\d\d-\d\d$/.test(text) ? text : isoDay(text);
  if (kind.startsWith('TIMESTAMP')) return moment(text);
  if (kind === 'BIGINT') return integer(isFromNumber ? numeral(text) : text, most64);
  if (kind === 'HUGEINT') return integer(isFromNumber ? numeral(text) : text, most128);
  if (kind === 'DOUBLE') return double(text, isFromNumber);
  if (kind.startsWith('DECIMAL')) return decimal(kind, text, isFromNumber);
  throw new Error(`the model knows no ${kind}`);
}

import { emptyShape, Kind, maxLeaves, type Shape } from '../../columns/column-shape.js';

/** A number as it was written. */
export class NumberText {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** A JSON value without any loss: numbers keep their text, and objects take any name. Of repeated names the last counts. */
export type ExactValue = null | boolean | string | NumberText | ExactValue[] | Map<string, ExactValue>;

const numberPattern = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const spacePattern = /[ \t\r\n]*/y;

/** Parses text that is known to be valid JSON; see `skipValue`. */
class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  #match(pattern: RegExp): string {
    pattern.lastIndex = this.#at;
    const token = pattern.exec(this.#text)?.[0] ?? '';
    this.#at += token.length;
    return token;
  }

  /** Does not use a pattern: one that repeats a choice exhausts the stack on a string of some megabytes. */
  #string(): string {
    const from = this.#at;
    let end = from;
    let escapes: number;
    do {
      end = this.#text.indexOf('"', end + 1);
      escapes = 0;
      while (this.#text[end - 1 - escapes] === '\\') escapes += 1;
    } while (escapes % 2 === 1);
    this.#at = end + 1;
    return JSON.parse(this.#text.slice(from, this.#at)) as string;
  }

  #take(): string {
    const character = this.#text[this.#at] as string;
    this.#at += 1;
    return character;
  }

  value(): ExactValue {
    this.#match(spacePattern);
    const first = this.#text[this.#at];
    let value: ExactValue;
    if (first === '"') value = this.#string();
    else if (first === '{') value = this.#object();
    else if (first === '[') value = this.#list();
    else if (first === 'n') value = this.#word(4, null);
    else if (first === 't') value = this.#word(4, true);
    else if (first === 'f') value = this.#word(5, false);
    else value = new NumberText(this.#match(numberPattern));
    this.#match(spacePattern);
    return value;
  }

  #word<T>(length: number, value: T): T {
    this.#at += length;
    return value;
  }

  #object(): Map<string, ExactValue> {
    const members = new Map<string, ExactValue>();
    this.#take();
    this.#match(spacePattern);
    if (this.#text[this.#at] === '}') return this.#word(1, members);
    do {
      this.#match(spacePattern);
      const name = this.#string();
      this.#match(spacePattern);
      this.#take();
      members.set(name, this.value());
    } while (this.#take() === ',');
    return members;
  }

  #list(): ExactValue[] {
    const items: ExactValue[] = [];
    this.#take();
    this.#match(spacePattern);
    if (this.#text[this.#at] === ']') return this.#word(1, items);
    do items.push(this.value());
    while (this.#take() === ',');
    return items;
  }
}

/** Parses a text that is known to be valid JSON, no deeper than `maxDepth`. */
export function parseExact(text: string): ExactValue {
  return new Reader(text).value();
}

const safe = 2n ** 53n;
const long = 2n ** 63n;
const huge = 10n ** 38n;

/** Whether a double would be infinite, or zero although the number is not. */
function isBeyondDouble(text: string, value: number): boolean {
  return !Number.isFinite(value) || (value === 0 && /^[^eE]*[1-9]/.test(text));
}

/** The kind of a number, from its text; two kinds for -0.0. */
export function numberKind(text: string): number {
  if (/[.eE]/.test(text)) {
    const value = Number(text);
    if (isBeyondDouble(text, value)) return Kind.textOnly;
    return Object.is(value, -0) ? Kind.double | Kind.negativeZero : Kind.double;
  }
  if (text.length <= 15) return Kind.safeInteger;
  if (text.length > 40) return Kind.textOnly;
  const value = BigInt(text);
  const size = value < 0n ? -value : value;
  if (size <= safe) return Kind.safeInteger;
  if (value >= -long && value < long) return Kind.longInteger;
  return size < huge ? Kind.hugeInteger : Kind.textOnly;
}

/** Adds the kinds of a value to a shape. Returns true if the shape changed. */
export function observe(value: ExactValue, shape: Shape): boolean {
  if (value === null) return false;
  const before = shape.kinds;
  if (typeof value === 'string') shape.kinds |= Kind.string;
  else if (typeof value === 'boolean') shape.kinds |= Kind.boolean;
  else if (value instanceof NumberText) shape.kinds |= numberKind(value.text);
  else if (Array.isArray(value)) return observeList(value, shape);
  else return observeObject(value, shape);
  return shape.kinds !== before;
}

function observeList(items: readonly ExactValue[], shape: Shape): boolean {
  let news = (shape.kinds & Kind.list) === 0 || shape.element === undefined;
  shape.kinds |= Kind.list;
  shape.element ??= emptyShape();
  for (const item of items) news = observe(item, shape.element) || news;
  return news;
}

function observeObject(members: ReadonlyMap<string, ExactValue>, shape: Shape): boolean {
  let news = (shape.kinds & Kind.struct) === 0 || shape.fields === undefined;
  shape.kinds |= Kind.struct;
  shape.fields ??= new Map();
  for (const [name, member] of members) {
    let field = shape.fields.get(name);
    if (field === undefined) {
      // An object with this many names is a map, and its column JSON. Its names may be unlimited, so no more are collected.
      if (shape.fields.size > maxLeaves) continue;
      field = emptyShape();
      shape.fields.set(name, field);
      news = true;
    }
    news = observe(member, field) || news;
  }
  return news;
}

/** A string as DuckDB's `to_json` writes it, with capital hexadecimal digits. */
export function canonicalString(text: string): string {
  const quoted = JSON.stringify(text);
  return quoted.replace(/\\(?:u00([0-9a-f]{2})|.)/g, (written, hex?: string) =>
    hex === undefined ? written : `\\u00${hex.toUpperCase()}`,
  );
}

/**
 * The canonical form of a number in JSON columns:
 * - an integer: digit for digit;
 * - another number: the shortest text that reads back the same; a whole one like an integer, since a DOUBLE column would not
 *   distinguish them;
 * - a number beyond the range of a double, or too close to zero for one: as received.
 */
export function canonicalNumber(text: string): string {
  if (!/[.eE]/.test(text)) return text === '-0' ? '0' : text;
  const value = Number(text);
  if (isBeyondDouble(text, value)) return text;
  if (Object.is(value, -0)) return '-0.0';
  if (Number.isInteger(value) && Math.abs(value) <= Number(safe)) return String(value);
  const shortest = String(value).replace('e+', 'e');
  return /[.e]/.test(shortest) ? shortest : `${shortest}.0`;
}

/** The canonical text of a value: sorted names, no members with null, no white space. */
export function canonicalJson(value: ExactValue): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return canonicalString(value);
  if (value instanceof NumberText) return canonicalNumber(value.text);
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  const members = [...value].filter(([, member]) => member !== null);
  return `{${members
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => `${canonicalString(name)}:${canonicalJson(member)}`)
    .join(',')}}`;
}

/** Whether any string in the value, or any name, has a surrogate without its other half. UTF-8 cannot encode it. */
export function hasLoneSurrogate(value: ExactValue): boolean {
  if (typeof value === 'string') return !value.isWellFormed();
  if (Array.isArray(value)) return value.some(hasLoneSurrogate);
  if (value instanceof Map)
    return [...value].some(([name, member]) => !name.isWellFormed() || hasLoneSurrogate(member));
  return false;
}

/** Replaces every surrogate without its other half by U+FFFD. If names become equal, the last one counts. */
export function withoutLoneSurrogates(value: ExactValue): ExactValue {
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(withoutLoneSurrogates);
  if (!(value instanceof Map)) return value;
  return new Map([...value].map(([name, member]) => [name.toWellFormed(), withoutLoneSurrogates(member)]));
}

/** JSON text of a value for DuckDB: numbers as received, each name once. */
export function writeExact(value: ExactValue): string {
  if (value === null || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return JSON.stringify(value);
  if (value instanceof NumberText) return value.text;
  if (Array.isArray(value)) return `[${value.map(writeExact).join(',')}]`;
  return `{${[...value].map(([name, member]) => `${JSON.stringify(name)}:${writeExact(member)}`).join(',')}}`;
}

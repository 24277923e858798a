import { Decimal } from './decimal.js';

/** A value in a template: null, a boolean, a text, a number, a {@link Decimal}, a list or a map of such. */
export type TemplateValue = unknown;

const number = /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** A number of JSON: a JavaScript number only if that has the same digits. */
function exactNumber(text: string): number | Decimal {
  const value = Number(text);
  return String(value) === text ? value : (Decimal.from(text) ?? value);
}

/** The end of a text of JSON that begins at an offset. */
function endOfText(json: string, from: number): number {
  for (let at = json.indexOf('"', from + 1); at >= 0; at = json.indexOf('"', at + 1)) {
    let slashes = at;
    while (json.charCodeAt(slashes - 1) === 0x5c) slashes -= 1;
    if ((at - slashes) % 2 === 0) return at + 1;
  }
  return json.length;
}

const isBlank = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;

function skipBlank(json: string, from: number): number {
  let at = from;
  while (isBlank(json.charCodeAt(at))) at += 1;
  return at;
}

/** The end of a value of JSON that begins at an offset. */
function endOfValue(json: string, from: number): number {
  let depth = 0;
  for (let at = from; at < json.length; ) {
    const code = json.charCodeAt(at);
    if (code === 0x22) at = endOfText(json, at);
    else {
      if (code === 0x7b || code === 0x5b) depth += 1;
      else if (code === 0x7d || code === 0x5d) {
        if (depth === 0) return at;
        depth -= 1;
      } else if (code === 0x2c && depth === 0) return at;
      at += 1;
    }
    if (depth === 0 && (code === 0x22 || code === 0x7d || code === 0x5d)) return at;
  }
  return json.length;
}

/**
 * The names of members by their place, and as JSON. Records of a stream have the same members in the same order, so most names are
 * only compared.
 */
const namesByPlace: { readonly json: string; readonly name: string }[] = [];
const maxPlaces = 2_000;

/**
 * The members of a JSON object, each as its JSON text. Nothing is lost of any digit.
 * @param wanted only these; those after the last of them are not read
 */
export function membersOf(json: string, wanted?: ReadonlySet<string>): Map<string, string> {
  const members = new Map<string, string>();
  let at = skipBlank(json, json.indexOf('{') + 1);
  for (let place = 0; json.charCodeAt(at) === 0x22 && members.size !== wanted?.size; place += 1) {
    let member = namesByPlace[place];
    if (member === undefined || !json.startsWith(member.json, at)) {
      const text = json.slice(at, endOfText(json, at));
      member = { json: text, name: JSON.parse(text) as string };
      if (place < maxPlaces) namesByPlace[place] = member;
    }
    const from = skipBlank(json, json.indexOf(':', at + member.json.length) + 1);
    const to = endOfValue(json, from);
    if (wanted === undefined || wanted.has(member.name)) members.set(member.name, json.slice(from, to).trimEnd());
    at = skipBlank(json, skipBlank(json, to) + 1);
  }
  return members;
}

/** The value of a JSON text, with all digits of its numbers. */
export function parseExactly(json: string): TemplateValue {
  // Most values have no number, or one that JavaScript holds.
  const first = json.charCodeAt(0);
  if (first === 0x22 || first === 0x74 || first === 0x66 || first === 0x6e) return JSON.parse(json);
  if (first !== 0x7b && first !== 0x5b) return exactNumber(json);
  let at = 0;
  const read = (): TemplateValue => {
    at = skipBlank(json, at);
    const code = json.charCodeAt(at);
    if (code === 0x22) {
      const from = at;
      at = endOfText(json, from);
      return JSON.parse(json.slice(from, at));
    }
    if (code === 0x5b) return readList();
    if (code === 0x7b) return readMap();
    number.lastIndex = at;
    const [digits] = number.exec(json) ?? [];
    if (digits !== undefined) {
      at += digits.length;
      return exactNumber(digits);
    }
    const word = json.startsWith('true', at) ? 'true' : json.startsWith('false', at) ? 'false' : 'null';
    at += word.length;
    return JSON.parse(word);
  };
  const next = (close: number): boolean => {
    at = skipBlank(json, at);
    const code = json.charCodeAt(at);
    if (code === 0x2c) at = skipBlank(json, at + 1);
    else if (code === close || Number.isNaN(code)) {
      at += 1;
      return false;
    }
    return true;
  };
  const readList = (): TemplateValue[] => {
    const list: TemplateValue[] = [];
    at += 1;
    while (next(0x5d)) list.push(read());
    return list;
  };
  const readMap = (): Record<string, TemplateValue> => {
    const map = Object.create(null) as Record<string, TemplateValue>;
    at += 1;
    while (next(0x7d)) {
      const name = read() as string;
      at = json.indexOf(':', at) + 1;
      map[name] = read();
    }
    return map;
  };
  return read();
}

/** The JSON text of a value. A value without one is null. */
export function jsonOf(value: TemplateValue): string {
  if (value instanceof Decimal) {
    const text = String(value);
    return /^-?(0|[1-9])/.test(text) && !/^-?0\d/.test(text) ? text : JSON.stringify(Number(text));
  }
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(',')}]`;
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(([name, part]) => `${JSON.stringify(name)}:${jsonOf(part)}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value) ?? 'null';
}

/** A value inside of a longer text: nothing for NULL, a text as it is, a list or a struct as JSON. */
export function textOf(value: TemplateValue): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return value;
  return typeof value === 'object' && !(value instanceof Decimal) ? jsonOf(value) : String(value);
}

import { createHash, createHmac } from 'node:crypto';
import { Decimal } from './decimal.js';
import { jsonOf, type TemplateValue, textOf } from './values.js';

/** Why a template cannot be filled in for a row. Has no value of the row. */
export class TemplateFailure extends Error {}

interface FilterContext {
  readonly context: { readonly memoryLimit: { use(count: number): void } };
}

type Handler = (this: FilterContext, value: TemplateValue, ...args: TemplateValue[]) => unknown;

/** A filter, and how many arguments it takes. */
interface TemplateFilter {
  readonly args: readonly [min: number, max: number];
  /** Undefined: the engine's own, which works on texts. */
  readonly handler?: Handler;
  /** Its result is not escaped. */
  readonly raw?: boolean;
  /** Whether it is the engine's filter of lists: those get lists as they are. */
  readonly ofLists?: boolean;
}

const isNull = (value: TemplateValue) => value === null || value === undefined;

function numberFrom(filter: string, value: TemplateValue): Decimal {
  const number = Decimal.from(value);
  if (number === undefined) throw new TemplateFailure(`the filter "${filter}" takes numbers only`);
  return number;
}

/** A result as the other filters take it: a JavaScript number, if that has the same digits. */
function plain(result: Decimal): number | Decimal {
  const value = Number(String(result));
  return String(value) === String(result) ? value : result;
}

/** A filter that calculates: NULL stays NULL, and an operand that is NULL makes the result NULL. */
function calculation(
  name: string,
  args: readonly [number, number],
  work: (value: Decimal, ...operands: Decimal[]) => Decimal,
): [string, TemplateFilter] {
  const handler: Handler = (value, ...operands) => {
    if ([value, ...operands].some(isNull)) return null;
    const [first, ...others] = [value, ...operands].map((part) => numberFrom(name, part));
    return plain(work(first as Decimal, ...others));
  };
  return [name, { args, handler }];
}

function divided(value: Decimal, divisor: Decimal): Decimal {
  const result = value.dividedBy(divisor);
  if (result === undefined) throw new TemplateFailure('a division by zero');
  return result;
}

const places = (digits: Decimal | undefined) => Math.max(-400, Math.min(400, Math.trunc(Number(String(digits ?? 0)))));

const calculations = [
  calculation('plus', [1, 1], (one, two) => one.plus(two as Decimal)),
  calculation('minus', [1, 1], (one, two) => one.plus((two as Decimal).negated())),
  calculation('times', [1, 1], (one, two) => one.times(two as Decimal)),
  calculation('divided_by', [1, 1], (one, two) => divided(one, two as Decimal)),
  calculation('modulo', [1, 1], (one, two) => {
    const quotient = divided(one, two as Decimal).rounded(0, 'down');
    return one.plus(quotient.times(two as Decimal).negated());
  }),
  calculation('round', [0, 1], (one, digits) => one.rounded(places(digits))),
  calculation('ceil', [0, 0], (one) => one.rounded(0, 'up')),
  calculation('floor', [0, 0], (one) => one.rounded(0, 'down')),
  calculation('abs', [0, 0], (one) => (one.lt(0) ? one.negated() : one)),
  calculation('at_least', [1, 1], (one, two) => (one.lt(two) ? (two as Decimal) : one)),
  calculation('at_most', [1, 1], (one, two) => (one.gt(two) ? (two as Decimal) : one)),
];

function member(item: TemplateValue, name: TemplateValue): TemplateValue {
  if (isNull(name)) return item;
  const key = textOf(name);
  return typeof item === 'object' && item !== null && Object.hasOwn(item, key)
    ? (item as Record<string, TemplateValue>)[key]
    : null;
}

/** The order of `sort`: numbers by value, then texts by code unit, then everything else; NULL is last. */
function order(one: TemplateValue, two: TemplateValue): number {
  const kind = (value: TemplateValue) =>
    isNull(value) ? 3 : typeof value === 'number' || value instanceof Decimal ? 0 : typeof value === 'string' ? 1 : 2;
  if (kind(one) !== kind(two)) return kind(one) - kind(two);
  if (kind(one) === 0) return (Decimal.from(one) as Decimal).compare(Decimal.from(two) as Decimal);
  const [left, right] = [textOf(one), textOf(two)];
  return left < right ? -1 : left > right ? 1 : 0;
}

/** A filter of a list; NULL stays NULL, and a value that is not a list is a list of one. */
function ofList(args: readonly [number, number], work: (list: TemplateValue[], arg: TemplateValue) => unknown) {
  const handler: Handler = function (value, arg) {
    if (isNull(value)) return null;
    const list = Array.isArray(value) ? value : [value];
    this.context.memoryLimit.use(list.length);
    return work(list, arg);
  };
  return { args, handler } satisfies TemplateFilter;
}

/** A hash: NULL for NULL and for an empty text, because the hash of nothing would match all that have nothing. */
function hash(args: readonly [number, number], work: (text: string, key: string) => string): TemplateFilter {
  const handler: Handler = function (value, key) {
    const text = textOf(value);
    this.context.memoryLimit.use(text.length);
    return text === '' ? null : work(text, textOf(key));
  };
  return { args, handler };
}

const digest = (algorithm: string, text: string) => createHash(algorithm).update(text, 'utf8').digest('hex');

/** A phone number as `+` and digits; NULL if it has no country and the filter names no country, or a wrong number of digits. */
function e164(text: string, country: string): string | null {
  const written = text.replace(/[\s().\-/\u00a0]/g, '').replace(/^00/, '+');
  const prefix = country.replace(/^\+/, '');
  const number = written.startsWith('+') || prefix === '' ? written : `+${prefix}${written.replace(/^0/, '')}`;
  return /^\+[1-9]\d{6,14}$/.test(number) ? number : null;
}

const withZone = /(?:Z|[+-]\d{2}:?\d{2}|GMT|UTC)\s*$/i;

/** The value that the engine's filters of dates take, so that the machine's time zone and its clock count nowhere. */
function moment(value: TemplateValue): TemplateValue {
  if (value instanceof Decimal) return Number(String(value));
  if (typeof value !== 'string' || /^\d+$/.test(value)) return value;
  const text = /^\d{4}-\d{2}-\d{2}$/.test(value) ? `${value}T00:00:00Z` : value;
  const zoned = withZone.test(text)
    ? text
    : `${text.replace(/^(\d{4}-\d{2}-\d{2}) /, '$1T')}${/T\d/.test(text) || /^\d{4}-\d{2}-\d{2} \d/.test(text) ? 'Z' : ' UTC'}`;
  return Number.isNaN(Date.parse(zoned)) ? undefined : zoned;
}

const numbersAsText = (value: TemplateValue): TemplateValue =>
  typeof value === 'object' && value !== null ? textOf(value) : value;

/** A filter of the engine, which gets values as it knows them. NULL stays NULL. */
export function engineFilter(filter: Pick<TemplateFilter, 'ofLists'>, name: string, handler: Handler): Handler {
  const isDate = name.startsWith('date');
  return function (value, ...args) {
    if (isNull(value)) return null;
    const parameters = args.map((arg) => (arg instanceof Decimal ? Number(String(arg)) : arg));
    if (isDate) {
      const date = moment(value);
      // Not a date: it stays as it is, as in Liquid.
      return date === undefined ? value : handler.call(this, date, ...parameters);
    }
    if (filter.ofLists) return handler.call(this, value instanceof Decimal ? textOf(value) : value, ...parameters);
    if (typeof value === 'string') this.context.memoryLimit.use(value.length);
    return handler.call(this, numbersAsText(value), ...parameters.map(numbersAsText));
  };
}

const text = (min: number, max: number = min): TemplateFilter => ({ args: [min, max] });
const list = (min: number, max: number = min): TemplateFilter => ({ args: [min, max], ofLists: true });

/** All filters of templates. Others of the engine are not repeatable, lose digits, or are of no use here. */
export const templateFilters: ReadonlyMap<string, TemplateFilter> = new Map<string, TemplateFilter>([
  ...calculations,
  ...Object.entries({
    append: text(1),
    base64_decode: text(0),
    base64_encode: text(0),
    capitalize: text(0),
    cgi_escape: text(0),
    date: text(0, 2),
    date_to_long_string: text(0, 2),
    date_to_rfc822: text(0),
    date_to_string: text(0, 2),
    date_to_xmlschema: text(0),
    downcase: text(0),
    escape: text(0),
    escape_once: text(0),
    lstrip: text(0, 1),
    newline_to_br: text(0),
    normalize_whitespace: text(0),
    number_of_words: text(0, 1),
    prepend: text(1),
    remove: text(1),
    remove_first: text(1),
    remove_last: text(1),
    replace: text(1, 2),
    replace_first: text(1, 2),
    replace_last: text(1, 2),
    rstrip: text(0, 1),
    slugify: text(0, 2),
    split: text(1),
    squish: text(0),
    strip: text(0, 1),
    strip_html: text(0),
    strip_newlines: text(0),
    truncate: text(0, 2),
    truncatewords: text(0, 2),
    upcase: text(0),
    uri_escape: text(0),
    url_decode: text(0),
    url_encode: text(0),
    xml_escape: text(0),
    compact: list(0, 1),
    concat: list(1),
    find: list(1, 2),
    first: list(0),
    group_by: list(1),
    has: list(1, 2),
    last: list(0),
    map: list(1),
    reject: list(1, 2),
    reverse: list(0),
    slice: list(1, 2),
    sort_natural: list(0, 1),
    where: list(1, 2),
    size: {
      args: [0, 0],
      handler: (value) =>
        Array.isArray(value) || typeof value === 'string'
          ? value.length
          : typeof value === 'object' && value !== null && !(value instanceof Decimal)
            ? Object.keys(value).length
            : 0,
    },
    join: ofList([0, 1], (items, by) => items.map(textOf).join(isNull(by) ? ' ' : textOf(by))),
    sort: ofList([0, 1], (items, name) => [...items].sort((one, two) => order(member(one, name), member(two, name)))),
    sum: ofList([0, 1], (items, name) =>
      plain(
        items
          .map((item) => Decimal.from(member(item, name)))
          .reduce<Decimal>((sum, part) => (part === undefined ? sum : sum.plus(part)), Decimal.from(0) as Decimal),
      ),
    ),
    uniq: ofList([0, 0], (items) => [...new Map(items.map((item) => [jsonOf(item), item])).values()]),
    default: {
      args: [1, 1],
      handler: (value, otherwise, options) => {
        const keepsFalse = Array.isArray(options) && options[0] === 'allow_false' && options[1] === true;
        const isEmpty = isNull(value) || value === '' || (Array.isArray(value) && value.length === 0);
        return isEmpty || (value === false && !keepsFalse) ? otherwise : value;
      },
    },
    json: { args: [0, 0], handler: (value) => jsonOf(value) },
    raw: { args: [0, 0], raw: true, handler: textOf },
    pad: {
      args: [1, 1],
      handler: (value, width) =>
        isNull(value) ? null : textOf(value).padStart(Math.min(Number(textOf(width)) || 0, 1000), '0'),
    },
    md5: hash([0, 0], (value) => digest('md5', value)),
    sha256: hash([0, 0], (value) => digest('sha256', value)),
    hmac_sha256: hash([1, 1], (value, key) => {
      if (key === '') throw new TemplateFailure('the filter "hmac_sha256" has an empty key');
      return createHmac('sha256', key).update(value, 'utf8').digest('hex');
    }),
    e164: { args: [0, 1], handler: (value, country) => (isNull(value) ? null : e164(textOf(value), textOf(country))) },
  } satisfies Record<string, TemplateFilter>),
]);

import { badRequest } from './response.js';

/** The parameters of a query string. */
export type Query = readonly (readonly [name: string, value: string])[];

function decoded(text: string): string {
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw badRequest('the query string is not percent-encoded UTF-8');
  }
}

/** Parses the text after the question mark. @throws {ServiceError} 400 */
export function parseQuery(text: string): Query {
  if (text === '') return [];
  return text
    .split('&')
    .filter((part) => part !== '')
    .map((part) => {
      const equals = part.indexOf('=');
      return equals < 0
        ? ([decoded(part), ''] as const)
        : ([decoded(part.slice(0, equals)), decoded(part.slice(equals + 1))] as const);
    });
}

/** The value of a parameter that may occur only once. @throws {ServiceError} 400 */
export function single(query: Query, name: string): string | undefined {
  let text: string | undefined;
  for (const [other, value] of query) {
    if (other !== name) continue;
    if (text !== undefined) throw badRequest(`${name} is given more than once`);
    text = value;
  }
  return text;
}

/** A parameter that is `true` or `false`; false if it is missing. @throws {ServiceError} 400 */
export function flag(query: Query, name: string): boolean {
  const value = single(query, name);
  if (value !== undefined && value !== 'true' && value !== 'false') throw badRequest(`${name} must be true or false`);
  return value === 'true';
}

const pattern = /^\d{4}(-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?)?)?$/;

/** Refuses days such as 31 June, which `Date.parse` reads as 1 July. */
function isDay(iso: string): boolean {
  const [day] = iso.split('T');
  return day?.length !== 10 || new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

/**
 * Reads a time in ISO 8601, in UTC unless it has an offset; a year, a month or a day means its first moment.
 * Returns milliseconds since the Unix epoch, or undefined if the parameter is missing.
 * @throws {ServiceError} 400
 */
export function momentOf(query: Query, name: string): number | undefined {
  const text = single(query, name);
  return text === undefined ? undefined : readMoment(name, text);
}

/** Reads the text of a time, as {@link momentOf} does. @throws {ServiceError} 400 */
export function readMoment(name: string, text: string): number {
  const iso = text.replace(' ', 'T');
  const whole = /T/.test(iso) && !/(Z|[+-]\d{2}:\d{2})$/.test(iso) ? `${iso}Z` : iso;
  const at = pattern.test(text) ? Date.parse(whole) : Number.NaN;
  if (Number.isNaN(at) || !isDay(iso))
    throw badRequest(`${name} is not a time: ${JSON.stringify(text)}; it must be ISO 8601, UTC`);
  return at;
}

/** Reads a span of time: `from` is included, `to` is not; a missing bound leaves it open. @throws {ServiceError} 400 */
export function spanOf(query: Query, from: string, to: string): { from: number; to: number } {
  const span = {
    from: momentOf(query, from) ?? Number.NEGATIVE_INFINITY,
    to: momentOf(query, to) ?? Number.POSITIVE_INFINITY,
  };
  if (span.from > span.to) throw badRequest(`${from} is after ${to}`);
  return span;
}

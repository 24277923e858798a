import { type Query, single } from './query.js';
import { badRequest } from './service-error.js';

const pattern = /^\d{4}(-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?)?)?$/;

/** The 31st of June is no day, though `Date.parse` takes it for the 1st of July. */
function isDay(iso: string): boolean {
  const [day] = iso.split('T');
  return day?.length !== 10 || new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

/**
 * A parameter that is a time: ISO 8601, UTC where no offset is given; a year, a month or a day stand for their beginning.
 * Milliseconds since the Unix epoch, undefined where it is not given.
 * @throws {ServiceError} 400
 */
export function momentOf(query: Query, name: string): number | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  const iso = text.replace(' ', 'T');
  const whole = /T/.test(iso) && !/(Z|[+-]\d{2}:\d{2})$/.test(iso) ? `${iso}Z` : iso;
  const at = pattern.test(text) ? Date.parse(whole) : Number.NaN;
  if (Number.isNaN(at) || !isDay(iso))
    throw badRequest(`${name} is no time: ${JSON.stringify(text)}; it must be ISO 8601, UTC`);
  return at;
}

/** Two bounds of a time, the first included, the second not; open where they are not given. @throws {ServiceError} 400 */
export function spanOf(query: Query, from: string, to: string): { from: number; to: number } {
  const span = {
    from: momentOf(query, from) ?? Number.NEGATIVE_INFINITY,
    to: momentOf(query, to) ?? Number.POSITIVE_INFINITY,
  };
  if (span.from > span.to) throw badRequest(`${from} is after ${to}`);
  return span;
}

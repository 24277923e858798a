import { jsonAnswer } from '../http/answer.js';
import { type Query, single } from '../http/query.js';
import { badRequest } from '../http/service-error.js';
import {
  bucketRange,
  collectionHistory,
  type HistoryRange,
  maxBuckets,
  type Scale,
  scales,
} from '../realtime/collection-history.js';
import type { Operation } from './operation.js';
import { namedCollection, realtimeApi, realtimeOf } from './realtime-api.js';

const isScale = (text: string): text is Scale => Object.hasOwn(scales, text);
/** A date, or a time of day in UTC. */
const timestamp = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?Z)?$/;

function timeOf(query: Query, name: string): number | undefined {
  const text = single(query, name);
  if (text === undefined) return undefined;
  const time = timestamp.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(time)) throw badRequest(`${name} must be a time in ISO 8601, UTC`);
  return time;
}

function rangeOf(query: Query, now: number): HistoryRange {
  const scale = single(query, 'scale') ?? 'day';
  if (!isScale(scale)) throw badRequest('scale must be minute, hour or day');
  const range = { scale, after: timeOf(query, 'after'), before: timeOf(query, 'before') };
  if (range.after !== undefined && range.before !== undefined && range.after >= range.before) {
    throw badRequest('after must be before before');
  }
  const { first, end } = bucketRange(range, now);
  if ((end - first) / scales[scale] > maxBuckets) {
    throw badRequest(`the range has more than ${maxBuckets} buckets: ask for a shorter range or a larger scale`);
  }
  return range;
}

/** GET /collections/{collection-id}/history (specification, section 4.10). */
export const getCollectionHistory: Operation = {
  method: 'GET',
  path: '/prof/collections/{collection-id}/history',
  guard: realtimeApi('profile-collections:read'),
  handle: (call, state) => {
    const realtime = realtimeOf(call, state);
    const now = state.clock.now();
    const range = rangeOf(call.query, now);
    return jsonAnswer(collectionHistory(namedCollection(realtime, call), range, now));
  },
};

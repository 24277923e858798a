import { jsonAnswer } from '../http/answer.js';
import { flag, type Query, single } from '../http/query.js';
import { badRequest } from '../http/service-error.js';
import {
  bucketRange,
  collectionHistory,
  type HistoryRange,
  maxBuckets,
  type Scale,
  scales,
} from '../realtime/collection-history.js';
import { collectionStats } from '../realtime/collection-stats.js';
import { shownProfile } from '../realtime/shown-profile.js';
import { answerPage } from './answer-page.js';
import { listSegmentMembers } from './list-segment-members.js';
import { listingOf } from './listing.js';
import { lookupByBody, lookupByQuery } from './lookup-profile.js';
import type { Operation } from './operation.js';
import { namedCollection, namedProfile, profileForm, realtimeApi, realtimeOf } from './realtime-api.js';
import { sendEvent } from './send-event.js';

/** GET /profiles/{collection-id}/{profile-id}/segments (specification, section 4.8). It always has a total. */
const listProfileSegments: Operation = {
  method: 'GET',
  path: '/prof/profiles/{collection-id}/{profile-id}/segments',
  guard: realtimeApi('real-time-segments:read', 'pii:read'),
  handle: (call, state) => {
    const realtime = realtimeOf(call, state);
    const collection = namedCollection(realtime, call);
    const position = namedProfile(collection, call);
    const version = collection.version(position);
    const memberships = realtime.segments
      .filter((segment) => segment.collection === collection && segment.has(position, version))
      .map(({ id, name }) => ({ segment_id: id, segment_name: name }));
    const listing = listingOf(`segments of ${collection.id} ${position}`, memberships);
    return answerPage(call, listing, state, { alwaysTotal: true });
  },
};

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
const getCollectionHistory: Operation = {
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

/** GET /profiles/{collection-id}/{profile-id} (specification, section 4.10). */
export const getRealtimeProfile: Operation = {
  method: 'GET',
  path: '/prof/profiles/{collection-id}/{profile-id}',
  guard: realtimeApi('profile-collections:read', 'pii:read'),
  handle: (call, state) => {
    const realtime = realtimeOf(call, state);
    const enrich = flag(call.query, 'enrich');
    const collection = namedCollection(realtime, call);
    return jsonAnswer(shownProfile(collection, namedProfile(collection, call), profileForm(call, state, enrich)));
  },
};

/** GET /collections/{collection-id}/stats (specification, section 4.10). */
const getCollectionStats: Operation = {
  method: 'GET',
  path: '/prof/collections/{collection-id}/stats',
  guard: realtimeApi('profile-collections:read'),
  handle: (call, state) => jsonAnswer(collectionStats(namedCollection(realtimeOf(call, state), call))),
};

/** The Real-time API (specification, sections 4.6, 4.7, 4.8 and 4.10). */
export const realtimeOperations: readonly Operation[] = [
  sendEvent,
  lookupByBody,
  lookupByQuery,
  getRealtimeProfile,
  listProfileSegments,
  listSegmentMembers,
  getCollectionStats,
  getCollectionHistory,
];

import { flag, momentOf, type Query, single } from '../http/query.js';
import { badRequest, jsonResponse } from '../http/response.js';
import type { Collection } from '../realtime/collection.js';
import { shownProfile } from '../realtime/shown-profile.js';
import { listSegmentMembers } from './list-segment-members.js';
import { listingOf } from './listing.js';
import { lookupByBody, lookupByQuery } from './lookup-profile.js';
import { type Operation, realtimeApi } from './operation.js';
import { pageResponse } from './page-response.js';
import { namedCollection, namedProfile, profileForm, realtimeOf } from './realtime-api.js';
import { sendEvent } from './send-event.js';

/** Counts the profiles, and for each key name the links (specification, section 4.10). */
function collectionStats(collection: Collection) {
  const links = new Map([
    ['email', 0],
    ['phone', 0],
    ['loyalty_id', 0],
  ]);
  const add = (name: string, count: number) => links.set(name, (links.get(name) ?? 0) + count);
  let total = 0;
  for (let at = collection.seek(0); at >= 0; at = collection.seek(at + 1)) {
    if (collection.version(at) < 0) continue;
    total += 1;
    const number = collection.personAt(at);
    if (number !== undefined) {
      add('email', collection.people.emails(number));
      add('phone', 1);
      add('loyalty_id', 1);
    }
    for (const [name] of collection.touched.get(at)?.links ?? []) add(name, 1);
  }
  return { total_profiles: total, link_cardinality: Object.fromEntries(links) };
}

/** Widths of buckets, in milliseconds. */
const scales = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

type Scale = keyof typeof scales;

const maxBuckets = 5000;
const defaultBuckets = 30;

interface HistoryRange {
  readonly scale: Scale;
  /** Milliseconds since the Unix epoch. The first bucket contains this time. */
  readonly after?: number | undefined;
  /** Milliseconds since the Unix epoch. The last bucket contains this time (published notes, Real-time API). */
  readonly before?: number | undefined;
}

/** The start of the first bucket, and of the one after the last; no bucket begins in the future. */
function bucketRange({ scale, after, before }: HistoryRange, nowMs: number): { first: number; end: number } {
  const width = scales[scale];
  const end = (Math.floor(Math.min(before ?? Number.POSITIVE_INFINITY, nowMs) / width) + 1) * width;
  const first = after === undefined ? end - defaultBuckets * width : Math.floor(after / width) * width;
  return { first, end: Math.max(first, end) };
}

/** The size of a collection at the end of each bucket, and now for the present one (specification, section 4.10). */
function collectionHistory(collection: Collection, range: HistoryRange, nowMs: number) {
  const width = scales[range.scale];
  const { first, end } = bucketRange(range, nowMs);
  const data = Array.from({ length: (end - first) / width }, (_, index) => {
    const start = first + index * width;
    const count = start + width > nowMs ? collection.total() : collection.counts.before(start + width);
    return { bucket: new Date(start).toISOString(), count };
  });
  return { scale: range.scale, data };
}

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
    return pageResponse(call, listing, state, { alwaysTotal: true });
  },
};

const isScale = (text: string): text is Scale => Object.hasOwn(scales, text);

function rangeOf(query: Query, nowMs: number): HistoryRange {
  const scale = single(query, 'scale') ?? 'day';
  if (!isScale(scale)) throw badRequest('scale must be minute, hour or day');
  const range = { scale, after: momentOf(query, 'after'), before: momentOf(query, 'before') };
  if (range.after !== undefined && range.before !== undefined && range.after >= range.before) {
    throw badRequest('after must be before before');
  }
  const { first, end } = bucketRange(range, nowMs);
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
    const nowMs = state.clock.now();
    const range = rangeOf(call.query, nowMs);
    return jsonResponse(collectionHistory(namedCollection(realtime, call), range, nowMs));
  },
};

/** GET /profiles/{collection-id}/{profile-id} (specification, section 4.10). */
const getRealtimeProfile: Operation = {
  method: 'GET',
  path: '/prof/profiles/{collection-id}/{profile-id}',
  guard: realtimeApi('profile-collections:read', 'pii:read'),
  handle: (call, state) => {
    const realtime = realtimeOf(call, state);
    const enrich = flag(call.query, 'enrich');
    const collection = namedCollection(realtime, call);
    return jsonResponse(shownProfile(collection, namedProfile(collection, call), profileForm(call, state, enrich)));
  },
};

/** GET /collections/{collection-id}/stats (specification, section 4.10). */
const getCollectionStats: Operation = {
  method: 'GET',
  path: '/prof/collections/{collection-id}/stats',
  guard: realtimeApi('profile-collections:read'),
  handle: (call, state) => jsonResponse(collectionStats(namedCollection(realtimeOf(call, state), call))),
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

import { answerPage } from './answer-page.js';
import { listingOf } from './listing.js';
import type { Operation } from './operation.js';
import { namedCollection, namedProfile, realtimeApi, realtimeOf } from './realtime-api.js';

/** GET /profiles/{collection-id}/{profile-id}/segments (specification, section 4.8). It always has a total. */
export const listProfileSegments: Operation = {
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

import { jsonAnswer } from '../http/answer.js';
import { flag } from '../http/query.js';
import { shownProfile } from '../realtime/shown-profile.js';
import type { Operation } from './operation.js';
import { namedCollection, namedProfile, realtimeApi, realtimeOf } from './realtime-api.js';

/** GET /profiles/{collection-id}/{profile-id} (specification, section 4.10). */
export const getRealtimeProfile: Operation = {
  method: 'GET',
  path: '/prof/profiles/{collection-id}/{profile-id}',
  guard: realtimeApi('profile-collections:read', 'pii:read'),
  handle: (call, state) => {
    const realtime = realtimeOf(call, state);
    const enrich = flag(call.query, 'enrich');
    const collection = namedCollection(realtime, call);
    return jsonAnswer(shownProfile(collection, namedProfile(collection, call), enrich));
  },
};

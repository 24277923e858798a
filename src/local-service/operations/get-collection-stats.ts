import { jsonAnswer } from '../http/answer.js';
import { collectionStats } from '../realtime/collection-stats.js';
import type { Operation } from './operation.js';
import { namedCollection, realtimeApi, realtimeOf } from './realtime-api.js';

/** GET /collections/{collection-id}/stats (specification, section 4.10). */
export const getCollectionStats: Operation = {
  method: 'GET',
  path: '/prof/collections/{collection-id}/stats',
  guard: realtimeApi('profile-collections:read'),
  handle: (call, state) => jsonAnswer(collectionStats(namedCollection(realtimeOf(call, state), call))),
};

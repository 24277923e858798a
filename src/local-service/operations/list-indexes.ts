import { answerPage } from './answer-page.js';
import { listingOf } from './listing.js';
import type { Operation } from './operation.js';
import { profileApi } from './profile-api.js';

/** GET /indexes (specification, section 4.2). */
export const listIndexes: Operation = {
  method: 'GET',
  path: '/api/indexes',
  guard: profileApi('indexes:read'),
  handle: (call, state) => {
    const resources = state.data(call.tenant).indexes.map(({ resource }) => resource);
    return answerPage(call, listingOf('indexes', resources), state);
  },
};

import { profileSegmentsPageOperation } from '../api/realtime-api.js';
import { source } from './declaration.js';
import { collection, ids, queryOfKeys } from './key-options.js';

/** The real-time segments of some profiles (specification, sections 2.4 and 4.8). */
export const profileSegments = source({
  name: 'profile_segments',
  description: 'The real-time segments of some profiles.',
  options: { collection, ids },
  // An id that is no longer listed is a delete.
  notDefining: ['ids'],
  group: 'realtime',
  coverage: 'everything',
  declared: { profile_id: 'VARCHAR', segment_id: 'VARCHAR', segment_name: 'VARCHAR' },
  key: ['profile_id', 'segment_id'],
  hashesKey: true,
  pages: {},
  readOptions: ({ ids: list }) => ({ query: queryOfKeys(list) }),
  open: async ({ collection: asked, ids: list }, context) => {
    const { readIds } = await import('./key-list.js');
    const { collectionOwner } = await import('./key-owner.js');
    const wanted = await readIds(context, list);
    return {
      kind: 'keyed',
      asked: { collection: asked, ids: wanted },
      mayMiss: true,
      owner: collectionOwner(asked),
      requests: wanted.map((id) => ({
        key: id,
        operation: ({ token, limit }) => profileSegmentsPageOperation(asked, id, { nextToken: token, limit }),
        returns: 'page',
        added: { profile_id: id },
      })),
    };
  },
});

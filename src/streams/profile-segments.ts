import { profileSegmentsPageOperation } from '../client/realtime-api.js';
import type { KeyedSource } from './source.js';

/** The real-time segments that each of some profiles is in (specification, sections 2.4 and 4.8). */
export function profileSegmentsSource(collection: string, ids: readonly string[]): KeyedSource {
  return {
    kind: 'keyed',
    brings: 'everything',
    added: {},
    declared: [
      { field: 'profile_id', type: 'VARCHAR' },
      { field: 'segment_id', type: 'VARCHAR' },
      { field: 'segment_name', type: 'VARCHAR' },
    ],
    container: null,
    key: ['profile_id', 'segment_id'],
    identity: { source: 'profile_segments', collection, ids },
    mayMiss: true,
    requests: ids.map((id) => ({
      operation: ({ token, limit }) => profileSegmentsPageOperation(collection, id, { nextToken: token, limit }),
      answers: 'page',
      added: { profile_id: id },
    })),
  };
}

import { collectionStatsOperation } from '../client/realtime-api.js';
import type { KeyedSource } from './source.js';

/** One sample of a collection's statistics (specification, section 4.10). */
export function collectionStatsSource(collection: string, sampledAt: string): KeyedSource {
  return {
    kind: 'keyed',
    brings: 'additions',
    added: {},
    declared: [
      { field: 'collection', type: 'VARCHAR' },
      { field: 'sampled_at', type: 'TIMESTAMP WITH TIME ZONE' },
      { field: 'total_profiles', type: 'BIGINT' },
    ],
    container: null,
    key: ['collection', 'sampled_at'],
    identity: { source: 'collection_stats', collection },
    mayMiss: false,
    requests: [
      {
        operation: () => collectionStatsOperation(collection),
        answers: 'record',
        added: { collection, sampled_at: sampledAt },
      },
    ],
  };
}

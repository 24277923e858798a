import { collectionStatsOperation } from '../api/realtime-api.js';
import { source } from './declaration.js';
import { collection } from './key-options.js';

/** One sample of a collection's statistics (specification, section 4.10). */
export const collectionStats = source({
  name: 'collection_stats',
  description: 'One sample of the statistics of a collection in each run.',
  options: { collection },
  group: 'realtime',
  coverage: 'additions',
  declared: { collection: 'VARCHAR', sampled_at: 'TIMESTAMP WITH TIME ZONE', total_profiles: 'BIGINT' },
  key: ['collection', 'sampled_at'],
  open: ({ collection: of }, { now }) => ({
    kind: 'keyed',
    mayMiss: false,
    requests: [
      {
        operation: () => collectionStatsOperation(of),
        returns: 'record',
        added: { collection: of, sampled_at: new Date(now).toISOString() },
      },
    ],
  }),
});

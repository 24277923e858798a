import { collectionHistoryOperation } from '../api/realtime-api.js';
import { choice } from '../sdk/option.js';
import { source } from './declaration.js';
import { collection } from './key-options.js';

const bucketMs = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/**
 * Where reading resumes: at the bucket that had not ended when the last run began. The service's documentation does not
 * say whether `after` includes its own bucket, so the result is one bucket earlier.
 */
function startAfter(scale: keyof typeof bucketMs, lastRunAt: string | undefined): string | undefined {
  const width = bucketMs[scale];
  if (lastRunAt === undefined) return undefined;
  return new Date(Math.floor(Date.parse(lastRunAt) / width) * width - width).toISOString();
}

/** The time series of a collection's profile counts (specification, section 4.10). */
export const collectionHistory = source({
  name: 'collection_history',
  description: 'Profile counts of a collection over time. cdsync reads buckets again that had not ended.',
  options: {
    collection,
    scale: choice(['minute', 'hour', 'day'], { description: 'Width of a bucket.', example: 'hour' }).prefault('day'),
  },
  group: 'realtime',
  coverage: 'additions',
  declared: { collection: 'VARCHAR', scale: 'VARCHAR', bucket: 'TIMESTAMP WITH TIME ZONE', count: 'BIGINT' },
  key: ['collection', 'scale', 'bucket'],
  open: ({ collection: of, scale }, { lastRunAt }) => {
    const after = startAfter(scale, lastRunAt);
    return {
      kind: 'list',
      asked: { collection: of, scale, after: after ?? null },
      added: { collection: of, scale },
      page: () => collectionHistoryOperation(of, { scale, after }),
    };
  },
});

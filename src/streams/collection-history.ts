import { collectionHistoryOperation } from '../client/realtime-api.js';
import type { ListSource } from './source.js';

export type HistoryScale = 'minute' | 'hour' | 'day';

const bucketMs: Record<HistoryScale, number> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };

/**
 * The time series of a collection's profile counts (specification, section 4.10), from the bucket that had not ended when
 * the run before began. Whether `after` includes its own bucket is not published, so it is one bucket earlier.
 */
export function collectionHistorySource(
  collection: string,
  scale: HistoryScale,
  lastRunAt: string | undefined,
): ListSource {
  const width = bucketMs[scale];
  const after =
    lastRunAt === undefined
      ? undefined
      : new Date(Math.floor(Date.parse(lastRunAt) / width) * width - width).toISOString();
  return {
    kind: 'list',
    brings: 'additions',
    added: { collection, scale },
    declared: [
      { field: 'collection', type: 'VARCHAR' },
      { field: 'scale', type: 'VARCHAR' },
      { field: 'bucket', type: 'TIMESTAMP WITH TIME ZONE' },
      { field: 'count', type: 'BIGINT' },
    ],
    container: null,
    key: ['collection', 'scale', 'bucket'],
    identity: { source: 'collection_history', collection, scale, after: after ?? null },
    page: () => collectionHistoryOperation(collection, { scale, after }),
  };
}

import type { Extracted } from '../../extract/extracted.js';
import type { LiveCounters } from '../../extract/stream-extraction.js';
import type { Covered } from '../../snapshot/snapshot-store.js';
import type { Counters } from '../../store/journal.js';

/** How a stream's records come to be, from the service or from a query. */
export interface Reading {
  readonly live: LiveCounters;
  /** Whether it goes on from what an earlier process has read. */
  readonly resumed: boolean;
  readonly key: readonly string[];
  /** Whether what is lacking is gone, or was only not asked for. */
  readonly brings: 'everything' | 'additions';
  /** What of time is read for good once this is committed; undefined where time does not matter. */
  readonly covered: readonly Covered[] | undefined;
  counters(): Counters;
  read(): Promise<void>;
  /** Everything read so far, all of it in files. */
  extracted(): Promise<Extracted>;
  close(): Promise<void>;
}

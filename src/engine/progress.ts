import type { BudgetShare } from '../client/budget.js';
import type { DeliveryProgress } from '../deliver/delivery.js';
import type { LiveCounters } from '../extract/live-counters.js';

export type StreamPhase = 'waiting' | 'reading' | 'comparing' | 'done' | 'failed';

/** What a stream is doing, for a display. */
export interface StreamProgress {
  readonly name: string;
  phase: StreamPhase;
  live: LiveCounters | undefined;
  /** Rows of the previous snapshot: an estimate of what the reading brings. */
  expectedRows: number | undefined;
  resumed: boolean;
}

/** What a run is doing. A display polls it; there are no events. */
export interface RunProgress {
  readonly job: string;
  runId: string | undefined;
  phase: 'starting' | 'preparing' | 'reading' | 'committing' | 'publishing' | 'delivering' | 'done';
  readonly streams: StreamProgress[];
  /** The present share of the Profile API's limit; undefined before the first request to it. */
  share: () => BudgetShare | undefined;
  /** Deliveries, one entry for each stream of each destination; empty until they begin. */
  readonly destinations: DeliveryProgress[];
}

export function newProgress(job: string, streams: readonly string[]): RunProgress {
  return {
    job,
    runId: undefined,
    phase: 'starting',
    destinations: [],
    share: () => undefined,
    streams: streams.map((name) => ({
      name,
      phase: 'waiting',
      live: undefined,
      expectedRows: undefined,
      resumed: false,
    })),
  };
}

import type { DeliveryProgress } from '../delivery/delivery.js';
import type { LiveCounters } from '../extract/read-result.js';
import type { LimitShare } from '../rate-limit/budget.js';

/** `read`: waits to be compared. `judging`: its guards are asked. `done`: ready for the commit of the run. */
export type StreamPhase = 'waiting' | 'reading' | 'read' | 'comparing' | 'judging' | 'done' | 'held' | 'failed';

/** What a stream's commit does, or would do if it is held. */
export interface StreamFigures {
  readonly rows: number;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
}

/** What a stream is doing, for a display. */
interface StreamProgress {
  readonly name: string;
  phase: StreamPhase;
  live: LiveCounters | undefined;
  /** What the reading brings, by the service's own total or by the previous snapshot. */
  expectedRows: number | undefined;
  /** Known as soon as the stream was compared. */
  figures: StreamFigures | undefined;
  resumed: boolean;
}

/** What a run is doing. A display polls it; there are no events. */
export interface RunProgress {
  readonly job: string;
  runId: string | undefined;
  phase: 'starting' | 'preparing' | 'reading' | 'committing' | 'publishing' | 'delivering' | 'done';
  readonly streams: StreamProgress[];
  /** The present share of the Profile API's limit; undefined before the first request to it. */
  share: () => LimitShare | undefined;
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
      figures: undefined,
      resumed: false,
    })),
  };
}

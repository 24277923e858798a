import type { StreamReport } from '../core/run-report.js';
import type { DeliveryProgress } from '../delivery/delivery.js';
import type { LiveCounters } from '../extract/read-result.js';
import type { LimitShare } from '../rate-limit/budget.js';

/** `read`: waits to be compared. `checking`: its guards check it. `done`: ready for the commit of the run. */
export type StreamPhase = 'waiting' | 'reading' | 'read' | 'comparing' | 'checking' | 'done' | 'held' | 'failed';

/** The changes of a stream's commit; if it is held, those of the commit that waits. */
export interface StreamFigures {
  readonly rows: number;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
}

/** The progress of a stream, for a display. */
export interface StreamProgress {
  readonly name: string;
  phase: StreamPhase;
  live: LiveCounters | undefined;
  /** Expected number of records, by the service's own total or the previous snapshot. */
  expectedRows: number | undefined;
  /** Of a stream that asks by key: how many responses it needs. */
  expectedAnswers?: number | undefined;
  /** Asks the service for the number, once, if no one knows it: only for a display that shows how much is left. */
  askTotal?: (() => void) | undefined;
  /** The limit that its requests count against. */
  limit?: StreamReport['limit'] | undefined;
  /** Known as soon as the stream was compared. */
  figures: StreamFigures | undefined;
  resumed: boolean;
}

/** The progress of a run. A display polls it; there are no events. */
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

import type { DeliveryProgress } from '../deliver/delivery.js';
import type { LiveCounters } from '../extract/live-counters.js';

export type StreamPhase = 'waiting' | 'reading' | 'comparing' | 'done' | 'failed';

/** What a stream is doing, for whoever shows it. */
export interface StreamProgress {
  readonly name: string;
  phase: StreamPhase;
  live: LiveCounters | undefined;
  /** Rows of the snapshot before: what the reading will probably bring. */
  expectedRows: number | undefined;
  resumed: boolean;
}

/** What a run is doing; looked at now and then, never waited for. */
export interface RunProgress {
  readonly job: string;
  runId: string | undefined;
  phase: 'starting' | 'preparing' | 'reading' | 'committing' | 'publishing' | 'delivering' | 'done';
  readonly streams: StreamProgress[];
  /** What is delivered, one entry a stream of a destination; filled when that begins. */
  readonly destinations: DeliveryProgress[];
}

export function newProgress(job: string, streams: readonly string[]): RunProgress {
  return {
    job,
    runId: undefined,
    phase: 'starting',
    destinations: [],
    streams: streams.map((name) => ({
      name,
      phase: 'waiting',
      live: undefined,
      expectedRows: undefined,
      resumed: false,
    })),
  };
}

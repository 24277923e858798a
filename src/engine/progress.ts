import type { LiveCounters } from '../extract/stream-extraction.js';

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
  phase: 'starting' | 'preparing' | 'reading' | 'committing' | 'publishing' | 'done';
  readonly streams: StreamProgress[];
}

export function newProgress(job: string, streams: readonly string[]): RunProgress {
  return {
    job,
    runId: undefined,
    phase: 'starting',
    streams: streams.map((name) => ({
      name,
      phase: 'waiting',
      live: undefined,
      expectedRows: undefined,
      resumed: false,
    })),
  };
}

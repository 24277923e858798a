import type { RunStatus } from '../../core/run.js';
import type { StreamRun } from './stream-run.js';

/** How a run ends whose streams have come to these ends. A stream that only waits for a held one has not failed. */
export function statusOf(
  streams: readonly (Pick<StreamRun, 'waits' | 'isHeld'> & {
    readonly commit: unknown;
    readonly outcome: { readonly error: unknown };
  })[],
): RunStatus {
  const hasFailed = streams.some(({ outcome, waits }) => outcome.error !== undefined && !waits);
  if (!hasFailed) return streams.some(({ isHeld }) => isHeld) ? 'held' : 'ok';
  return streams.some(({ commit }) => commit !== undefined) ? 'partial' : 'failed';
}

import type { DestinationReport, RunStatus } from '../../core/run.js';
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

type Delivered = Pick<DestinationReport, 'status' | 'rows'>;

function isBad({ status }: Delivered): boolean {
  return status === 'failed' || status === 'partial';
}

/** What a run's status becomes with what its destinations have done. */
export function statusWithDestinations(status: RunStatus, destinations: readonly Delivered[]): RunStatus {
  const delivered = destinations.some(({ rows, status: each }) => rows > 0 && (each === 'ok' || each === 'partial'));
  if (status === 'failed') return delivered ? 'partial' : 'failed';
  if (!destinations.some(isBad) || status === 'interrupted') return status;
  // What a guard holds was not committed; of everything else something was, now or before.
  return status === 'held' && !delivered ? 'failed' : 'partial';
}

/** How a delivery without a run ends. */
export function statusOfDeliveries(destinations: readonly Delivered[]): RunStatus {
  if (!destinations.some(isBad)) return 'ok';
  return destinations.some(({ status }) => status === 'ok' || status === 'partial') ? 'partial' : 'failed';
}

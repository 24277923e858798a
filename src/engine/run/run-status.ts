import type { DestinationReport, RunStatus } from '../../core/run.js';
import type { StreamRun } from './stream-run.js';

/** The status of a run, by the ends of its streams. A stream that only waits for a held one has not failed. */
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

/** The status of a run, after its destinations. */
export function statusWithDestinations(status: RunStatus, destinations: readonly Delivered[]): RunStatus {
  const delivered = destinations.some(({ rows, status: each }) => rows > 0 && (each === 'ok' || each === 'partial'));
  if (status === 'failed') return delivered ? 'partial' : 'failed';
  if (!destinations.some(isBad) || status === 'interrupted') return status;
  // A held run that delivered nothing brought nothing. Any other has a snapshot to deliver, of this run or an earlier one.
  return status === 'held' && !delivered ? 'failed' : 'partial';
}

/** The status of a delivery without a run. */
export function statusOfDeliveries(destinations: readonly Delivered[]): RunStatus {
  if (!destinations.some(isBad)) return 'ok';
  return destinations.some(({ status }) => status === 'ok' || status === 'partial') ? 'partial' : 'failed';
}

import type { DestinationReport, RunStatus } from '../../core/run-report.js';
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

/** Whether a delivery is incomplete. */
function isBad({ status }: Delivered): boolean {
  return status !== 'ok';
}

/** The status of a run, after its destinations. One that was not tried is never ok. */
export function statusWithDestinations(status: RunStatus, destinations: readonly Delivered[]): RunStatus {
  const delivered = destinations.some(({ rows, status }) => rows > 0 && (status === 'ok' || status === 'partial'));
  if (status === 'failed') return delivered ? 'partial' : 'failed';
  const bad = destinations.filter(isBad);
  if (bad.length === 0 || status === 'interrupted') return status;
  // A held stream is not delivered: that is not another failure.
  if (status === 'held' && bad.every(({ status }) => status === 'skipped' || status === 'not_tried')) return 'held';
  // A held run without deliveries has changed nothing. Any other has delivered a snapshot, of this run or an earlier one.
  return status === 'held' && !delivered ? 'failed' : 'partial';
}

/** The status of a delivery without a run. */
export function statusOfDeliveries(destinations: readonly Delivered[]): RunStatus {
  if (!destinations.some(isBad)) return 'ok';
  return destinations.some(({ status }) => status === 'ok' || status === 'partial') ? 'partial' : 'failed';
}

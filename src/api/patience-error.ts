import { formatCounted, formatDuration } from '../core/quantities.js';
import { ServiceError } from './errors.js';
import type { Outage } from './outage.js';
import type { Setback } from './setback.js';
import type { Trial } from './trial.js';

const hint =
  'run again when the service answers: it resumes from the checkpoint. `retry.patience` sets how long cdsync waits';

function since(timeOfDay: number, ms: number): string {
  return `since ${new Date(timeOfDay - ms).toISOString().replace(/\.\d+/, '')} (${formatDuration(ms)})`;
}

/** The error of a request whose patience ended in an outage. */
export function outageError(
  outage: Outage,
  end: {
    /** Outage within twice the patience. */
    readonly awayMs: number;
    /** Whether any request has ever succeeded. */
    readonly wasReached: boolean;
    readonly name: string;
    readonly now: number;
    readonly timeOfDay: number;
  },
): Error {
  const { last, requests, attempts } = outage;
  if (last === undefined) throw new TypeError('an outage begins with a failure');
  // An address that never answered is probably wrong: its own error says so.
  if (!end.wasReached && last.isUnconnected) return last.toError(requests);
  const cause = last.toError(attempts);
  if (requests === 1 && last.waitMs === 0) return cause;
  const ms = end.now - outage.since;
  const often = end.awayMs > ms + 1_000 ? `, and for ${formatDuration(end.awayMs)} of the last while` : '';
  return unavailable(
    `the ${end.name} has not answered ${since(end.timeOfDay, ms)}${often}, ${formatCounted(requests, 'request')}. Last: ${cause.message}`,
    last,
    cause,
  );
}

/** The error of a request that kept failing while others succeeded. */
export function singleError(
  setback: Setback,
  { attempts }: Trial,
  { sinceMs, timeOfDay }: { readonly sinceMs: number; readonly timeOfDay: number },
): Error {
  const cause = setback.toError(attempts);
  if (setback.again === 'when_allowed' || setback.isUnreadable || (setback.isUnconnected && sinceMs === 0))
    return cause;
  const message = `${cause.message}. It has failed ${since(timeOfDay, sinceMs)}`;
  return unavailable(message, setback, cause, true);
}

function unavailable(message: string, { waitMs, isUnreadable }: Setback, cause: Error, isSingle = false): ServiceError {
  const { status, serviceMessage, requestId, traceId, code, hint: own } = cause as ServiceError;
  const hasOwn = isUnreadable || code === 'timeout';
  return new ServiceError(message, {
    code: isUnreadable ? code : 'service_unavailable',
    kind: 'retryable',
    isSingle,
    status,
    serviceMessage,
    requestId,
    traceId,
    cause: cause.cause,
    hint:
      waitMs > 60_000
        ? `the service asks cdsync to wait ${formatDuration(waitMs)}: run again after that`
        : hasOwn && own !== undefined
          ? `${own}. Otherwise ${hint}`
          : hint,
  });
}

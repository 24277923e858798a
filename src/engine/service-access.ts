import { type ServiceClient, ServiceError } from '../api/client.js';
import { sendEventOperation } from '../api/realtime-api.js';
import { CdsyncError } from '../core/errors.js';
import type { ServiceAccess } from '../sdk/destination.js';

/** Statuses that refuse one event: the service may still accept another. */
const aboutTheEvent = new Set([400, 413, 422]);

/** A refusal, as an error of the delivery of events (published facts, Real-time API). */
function eventError(error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error;
  const { status = 0, message, requestId } = error;
  if (aboutTheEvent.has(status)) return new CdsyncError(message, { code: 'event_refused', requestId, cause: error });
  if (status !== 409) return error;
  return new CdsyncError(message, {
    code: 'conflict',
    kind: 'retryable',
    requestId,
    hint: 'the event stream accepts no events now: they are sent when it does',
    cause: error,
  });
}

/** The requests that destinations may make, through the service's client: with its budget, token and retries. */
export function serviceAccess(client: ServiceClient, notice: (line: string) => void): ServiceAccess {
  const dropping = new Set<string>();
  return {
    async sendEvent(streamId, event, signal) {
      const decode = (_: Buffer, { status }: { readonly status: number }) => {
        if (status !== 204 || dropping.has(streamId)) return;
        dropping.add(streamId);
        notice(`event stream "${streamId}" takes events and drops them (204): they change no profile`);
      };
      // A delivery sends at least once, so a lost answer is no reason to stop.
      const operation = { ...sendEventOperation(streamId, event), idempotent: true };
      const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
      await client.send(operation, decode, { signal, meter }).catch((error: unknown) => {
        throw eventError(error);
      });
    },
  };
}

/** For commands without a service: its variables need not be set if no destination uses it. */
export const noService: ServiceAccess = {
  sendEvent: () => Promise.reject(new Error('this connector does not declare that it uses the service')),
};

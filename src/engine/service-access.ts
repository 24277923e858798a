import { type ServiceClient, ServiceError } from '../client/client.js';
import { sendEventOperation } from '../client/realtime-api.js';
import { CdsyncError } from '../core/errors.js';
import type { ServiceAccess } from '../sdk/destination.js';

/** Answers that are about the event itself: another one may be taken. */
const aboutTheEvent = new Set([400, 413, 422]);

/** What a refusal means to whoever delivers events (published facts, Real-time API). */
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

/** What destinations may do with the service, through its client: within its budget, with its token and its retries. */
export function serviceAccess(client: ServiceClient, notice: (line: string) => void): ServiceAccess {
  const dropping = new Set<string>();
  return {
    async sendEvent(streamId, event, signal) {
      const decode = (_: Buffer, { status }: { readonly status: number }) => {
        if (status !== 204 || dropping.has(streamId)) return;
        dropping.add(streamId);
        notice(`event stream "${streamId}" takes events and drops them (204): they change no profile`);
      };
      // A delivery sends at least once, so that an answer that was lost is no reason to stop.
      const operation = { ...sendEventOperation(streamId, event), idempotent: true };
      const meter = { requests: 0, retries: 0, throttled: 0, bytes: 0 };
      await client.send(operation, decode, { signal, meter }).catch((error: unknown) => {
        throw eventError(error);
      });
    },
  };
}

/** For commands that know no service: its variables need not be set where no destination asks for it. */
export const noService: ServiceAccess = {
  sendEvent: () => Promise.reject(new Error('this connector does not declare that it uses the service')),
};

import type { ServerResponse } from 'node:http';
import { type Answer, headOf, send } from '../http/answer.js';
import type { ServiceClock } from '../service-clock.js';
import { type Fault, faultOf } from './fault.js';

interface Sending {
  readonly response: ServerResponse;
  readonly answer: Answer;
  readonly faults: readonly Fault[];
  readonly clock: ServiceClock;
  /** Aborts when the service closes. */
  readonly signal: AbortSignal;
}

/** Ends the connection at once, as a crash of the service would: the client sees a reset. */
export function abortConnection({ socket }: ServerResponse): void {
  if (socket !== null && 'resetAndDestroy' in socket) socket.resetAndDestroy();
}

async function sendSlowly({ response, answer, clock, signal }: Sending, delayMs: number, chunks: number) {
  response.writeHead(answer.status, headOf(answer, clock.dateHeader()));
  const size = Math.max(1, Math.ceil(answer.body.length / chunks));
  for (let at = 0; at < answer.body.length && !response.destroyed; at += size) {
    if (at > 0) await clock.sleep(delayMs, signal);
    response.write(answer.body.subarray(at, at + size));
  }
  response.end();
}

/** Sends an answer as the faults demand: whole, in part, or drop by drop. */
export async function sendFaulty(sending: Sending): Promise<void> {
  const { response, answer, faults, clock } = sending;
  const torn = faultOf(faults, 'torn');
  if (torn !== undefined) {
    response.writeHead(answer.status, headOf(answer, clock.dateHeader()));
    response.flushHeaders();
    const kept = answer.body.subarray(0, Math.floor(answer.body.length * torn.keep));
    response.write(kept, () => response.destroy());
    return;
  }
  const slow = faultOf(faults, 'slow_body');
  if (slow !== undefined) await sendSlowly(sending, slow.delay_ms, slow.chunks);
  else send(response, answer, clock.dateHeader());
}

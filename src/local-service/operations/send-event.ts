import type { IncomingMessage } from 'node:http';
import { contentType, jsonObject } from '../http/request-body.js';
import { noContent, notFound, ServiceError, type ServiceResponse } from '../http/response.js';
import { type StreamDefinition, streams } from '../realtime/catalogue.js';
import type { ServiceState } from '../service-state.js';
import { type Call, type Operation, realtimeApi } from './operation.js';
import { realtimeOf } from './realtime-api.js';

const maxEventBytes = 64 * 1024;
/** The service reads a refused body up to this size and keeps the connection; for a longer one it closes it. */
const maxRefusedBytes = 1024 * 1024;

const accepted: ServiceResponse = { status: 202, headers: {}, body: Buffer.alloc(0) };

/** Checks an event's headers before its body is read. @throws {ServiceError} 411, 413, 415 */
function checkHeaders(request: IncomingMessage): void {
  const length = request.headers['content-length'];
  if (length === undefined) throw new ServiceError(411, 'an event needs the header Content-Length');
  if (Number(length) > maxEventBytes) {
    const close: Record<string, string> = Number(length) > maxRefusedBytes ? { connection: 'close' } : {};
    throw new ServiceError(413, `an event may have at most ${maxEventBytes} bytes`, close);
  }
  if (Number(length) > 0 && contentType(request) !== 'application/json')
    throw new ServiceError(415, 'an event must be sent as application/json');
}

/** @throws {ServiceError} 404, 409 */
function openStream(id: string): StreamDefinition {
  const stream = streams.find((one) => one.id === id);
  if (stream === undefined) throw notFound('there is no event stream of this id');
  if (stream.mode === 'paused') throw new ServiceError(409, 'the event stream does not accept events now');
  return stream;
}

async function take(call: Call, state: ServiceState): Promise<ServiceResponse> {
  realtimeOf(call, state);
  checkHeaders(call.request);
  const event = await jsonObject(call.request, maxEventBytes, call.faults);
  const stream = openStream(call.parameters[0] as string);
  if (stream.mode === 'drops') return noContent;
  // Nothing below waits, so that simultaneous events are applied one after the other.
  state.realtime.take(call.tenant, stream.id, event, state.clock.now());
  return accepted;
}

/** POST /events/{stream-id} (specification, sections 4.10 and 6). */
export const sendEvent: Operation = {
  method: 'POST',
  path: '/prof/events/{stream-id}',
  guard: { ...realtimeApi('profile-events:write'), instead: 'streaming-ingest-api:write' },
  lasting: 'events',
  handle: take,
};

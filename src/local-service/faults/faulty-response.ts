import type { IncomingMessage, ServerResponse } from 'node:http';
import { gzipSync } from 'node:zlib';
import { headOf, ServiceError, type ServiceResponse, send } from '../http/response.js';
import type { Permission } from '../keys/api-key.js';
import type { ServiceClock } from '../service-clock.js';
import { type Fault, type FaultOf, faultOf } from './fault.js';

function retryAfter(value: number | string | null | undefined): Record<string, string> {
  return value === undefined || value === null ? {} : { 'retry-after': String(value) };
}

function statusResponse(fault: FaultOf<'status'>): ServiceResponse {
  const headers = { ...retryAfter(fault.retry_after), ...fault.headers };
  const message = fault.message ?? `status ${fault.status}, set by a fault`;
  if (fault.body === undefined) throw new ServiceError(fault.status, message, headers);
  return { status: fault.status, headers, body: Buffer.from(fault.body) };
}

/** @throws {ServiceError} if the path has an id that a fault refuses */
function assertValidId(faults: readonly Fault[], url: string): void {
  const segments = url.replace(/\?.*$/s, '').split('/');
  for (const fault of faults) {
    if (fault.kind === 'bad_id' && segments.includes(encodeURIComponent(fault.refused)))
      throw new ServiceError(fault.status, 'this id is not valid');
  }
}

/** An error in another form than the published one (specification, section 2.6). */
function reformed(response: ServiceResponse, form: FaultOf<'error_body'>['form']): ServiceResponse {
  const { status, message } = JSON.parse(response.body.toString('utf8')) as { status: number; message: string };
  const bodies = {
    nested: ['application/json', JSON.stringify({ error: { code: status, message } })],
    problem: [
      'application/problem+json',
      JSON.stringify({ type: 'about:blank', title: 'Refused', status, detail: message }),
    ],
    errors: ['application/json', JSON.stringify({ errors: [{ code: String(status), message }] })],
    text: ['text/plain', message],
    html: ['text/html', `<!doctype html><title>${status}</title><p>${message}</p>`],
    empty: ['text/plain', ''],
  } as const;
  const [type, text] = bodies[form];
  return { ...response, headers: { ...response.headers, 'content-type': type }, body: Buffer.from(text) };
}

/**
 * The response of a fault that replaces the operation; undefined if there is no such fault.
 * @throws {ServiceError} if that response is an error
 */
export function faultResponse(
  faults: readonly Fault[],
  needed: readonly Permission[],
  url: string,
): ServiceResponse | undefined {
  assertValidId(faults, url);
  const status = faultOf(faults, 'status');
  if (status !== undefined) return statusResponse(status);
  const throttle = faultOf(faults, 'throttle');
  if (throttle !== undefined) throw new ServiceError(429, 'too many requests', retryAfter(throttle.retry_after));
  if (faultOf(faults, 'missing_permission') !== undefined) {
    throw new ServiceError(403, `the API key lacks the permission ${needed[0] ?? 'asked for'}`);
  }
  if (faultOf(faults, 'not_json') !== undefined) {
    const body = Buffer.from('<!doctype html><title>Please sign in</title><p>Please sign in to continue.');
    return { status: 200, headers: { 'content-type': 'text/html' }, body };
  }
  return undefined;
}

/** The redirect from one spelling of a path to the other; undefined if the path has the right one. */
export function redirected(faults: readonly Fault[], url: string): ServiceResponse | undefined {
  const fault = faultOf(faults, 'slash_redirect');
  if (fault === undefined) return undefined;
  const [, path = '', query = ''] = /^([^?]*)(.*)$/s.exec(url) ?? [];
  if (path.endsWith('/') === (fault.to === 'slash')) return undefined;
  const location = (fault.to === 'slash' ? `${path}/` : path.replace(/\/$/, '')) + query;
  return { status: fault.status, headers: { location }, body: Buffer.alloc(0) };
}

function acceptsGzip({ headers }: IncomingMessage): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(String(headers['accept-encoding'] ?? ''));
}

/** Applies the faults to a response before it is sent. */
export function faultyResponse(
  response: ServiceResponse,
  faults: readonly Fault[],
  request: IncomingMessage,
): ServiceResponse {
  let { status, headers, body } = response;
  const form = faultOf(faults, 'error_body')?.form;
  if (form !== undefined && status >= 400 && headers['content-type'] === undefined)
    ({ headers, body } = reformed(response, form));
  const success = faultOf(faults, 'success');
  if (success !== undefined && status < 300) {
    status = success.status;
    body = status === 204 ? Buffer.alloc(0) : Buffer.from(success.body ?? body);
  }
  const deprecation = faultOf(faults, 'deprecation');
  if (deprecation !== undefined) {
    headers = { ...headers, deprecation: deprecation.deprecation, sunset: deprecation.sunset };
  }
  const half = faultOf(faults, 'half_json');
  if (half !== undefined) body = body.subarray(0, Math.floor(body.length * half.keep));
  const large = faultOf(faults, 'large_body');
  if (large !== undefined) body = Buffer.concat([body, Buffer.alloc(large.bytes, ' ')]);
  if (acceptsGzip(request) && faultOf(faults, 'gzip') !== undefined)
    return gzipped({ ...response, status, headers, body });
  return { ...response, status, headers, body };
}

/** The same response, compressed. */
function gzipped(response: ServiceResponse): ServiceResponse {
  const body = gzipSync(response.body, { level: 1 });
  response.release?.();
  return {
    status: response.status,
    headers: { ...response.headers, 'content-encoding': 'gzip', vary: 'accept-encoding' },
    body,
  };
}

interface Sending {
  readonly serverResponse: ServerResponse;
  readonly response: ServiceResponse;
  readonly faults: readonly Fault[];
  readonly clock: ServiceClock;
  /** Aborts when the service closes. */
  readonly signal: AbortSignal;
}

/** Ends the connection at once, as a crash of the service would: the client sees a reset. */
export function abortConnection({ socket }: ServerResponse): void {
  if (socket !== null && 'resetAndDestroy' in socket) socket.resetAndDestroy();
}

async function sendSlowly({ serverResponse, response, clock, signal }: Sending, delayMs: number, chunks: number) {
  serverResponse.writeHead(response.status, headOf(response, clock.dateHeader()));
  const size = Math.max(1, Math.ceil(response.body.length / chunks));
  for (let at = 0; at < response.body.length && !serverResponse.destroyed; at += size) {
    if (at > 0) await clock.sleep(delayMs, signal);
    serverResponse.write(response.body.subarray(at, at + size));
  }
  serverResponse.end();
}

/** Sends a response as the faults demand: complete, cut short, or in slow pieces. */
export async function sendFaulty(sending: Sending): Promise<void> {
  const { serverResponse, response, faults, clock } = sending;
  const torn = faultOf(faults, 'torn');
  if (torn !== undefined) {
    serverResponse.writeHead(response.status, headOf(response, clock.dateHeader()));
    serverResponse.flushHeaders();
    const kept = response.body.subarray(0, Math.floor(response.body.length * torn.keep));
    serverResponse.write(kept, () => serverResponse.destroy());
    return;
  }
  const slow = faultOf(faults, 'slow_body');
  if (slow !== undefined) await sendSlowly(sending, slow.delay_ms, slow.chunks);
  else send(serverResponse, response, clock.dateHeader());
}

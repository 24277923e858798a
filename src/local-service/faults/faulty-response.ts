import { gzipSync } from 'node:zlib';
import type { Answer } from '../http/answer.js';
import { ServiceError } from '../http/service-error.js';
import type { Permission } from '../permissions.js';
import { type Fault, type FaultOf, faultOf } from './fault.js';

function retryAfter(value: number | string | null | undefined): Record<string, string> {
  return value === undefined || value === null ? {} : { 'retry-after': String(value) };
}

function statusAnswer(fault: FaultOf<'status'>): Answer {
  const headers = { ...retryAfter(fault.retry_after), ...fault.headers };
  const message = fault.message ?? `status ${fault.status}, set by a fault`;
  if (fault.body === undefined) throw new ServiceError(fault.status, message, headers);
  return { status: fault.status, headers, body: Buffer.from(fault.body) };
}

/**
 * The answer that a fault gives instead of the operation; undefined if no fault does.
 * @throws {ServiceError} if that answer is an error
 */
export function faultResponse(faults: readonly Fault[], needed: readonly Permission[]): Answer | undefined {
  const status = faultOf(faults, 'status');
  if (status !== undefined) return statusAnswer(status);
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
export function redirected(faults: readonly Fault[], url: string): Answer | undefined {
  const fault = faultOf(faults, 'slash_redirect');
  if (fault === undefined) return undefined;
  const [, path = '', query = ''] = /^([^?]*)(.*)$/s.exec(url) ?? [];
  if (path.endsWith('/') === (fault.to === 'slash')) return undefined;
  const location = (fault.to === 'slash' ? `${path}/` : path.replace(/\/$/, '')) + query;
  return { status: fault.status, headers: { location }, body: Buffer.alloc(0) };
}

/** Applies the faults to an answer before it is sent. */
export function faultyResponse(answer: Answer, faults: readonly Fault[], acceptsGzip: boolean): Answer {
  let { headers, body } = answer;
  const deprecation = faultOf(faults, 'deprecation');
  if (deprecation !== undefined) {
    headers = { ...headers, deprecation: deprecation.deprecation, sunset: deprecation.sunset };
  }
  const half = faultOf(faults, 'half_json');
  if (half !== undefined) body = body.subarray(0, Math.floor(body.length * half.keep));
  const large = faultOf(faults, 'large_body');
  if (large !== undefined) body = Buffer.concat([body, Buffer.alloc(large.bytes, ' ')]);
  if (acceptsGzip && faultOf(faults, 'gzip') !== undefined) return gzipped({ ...answer, headers, body });
  return { ...answer, headers, body };
}

/** The same answer, compressed. */
export function gzipped(answer: Answer): Answer {
  const body = gzipSync(answer.body, { level: 1 });
  answer.release?.();
  return {
    status: answer.status,
    headers: { ...answer.headers, 'content-encoding': 'gzip', vary: 'accept-encoding' },
    body,
  };
}

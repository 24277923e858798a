import type { ServiceOptions } from '../core/service-options.js';
import type { ResponseHeaders } from './response-reader.js';

export type RetryOptions = ServiceOptions['retry'];

/** Before any request has succeeded, a connection that cannot be made has this long: the address is probably wrong. */
export const connectPatienceMs = 20_000;
/** An answer that cannot be read is asked for this often while others can be read. */
export const mostUnreadable = 8;

/** The longest pause before the first retry of one request; it doubles with each further one. */
const singleMs = 200;
/** The shortest pause before the first probe of an outage; it doubles with each further one. */
const outageMs = 1_000;
/** Pauses of an outage are up to this many times as long, so that processes do not probe at the same moments. */
const jitter = 1.25;

/** The pause after the n-th failure of one request, counted from 1: exponential, with full jitter. */
export function singlePauseMs(
  failures: number,
  { maxDelayMs, random }: Pick<RetryOptions, 'maxDelayMs'> & { readonly random: () => number },
): number {
  return random() * Math.min(maxDelayMs, singleMs * 2 ** Math.min(failures - 1, 30));
}

/** The pause before the n-th probe of an outage, counted from 0. */
export function outagePauseMs(
  probes: number,
  { maxDelayMs, random }: Pick<RetryOptions, 'maxDelayMs'> & { readonly random: () => number },
): number {
  return Math.min(maxDelayMs / jitter, outageMs * 2 ** Math.min(probes, 30)) * (1 + random() * (jitter - 1));
}

/**
 * Milliseconds that `Retry-After` asks to wait, given as seconds or as a date; undefined if the header is missing or
 * unreadable. A date is compared with the answer's own `Date`, so that clocks need not agree.
 * @param now the time of day in milliseconds, used if the answer has no `Date`
 */
export function retryAfterMs(headers: ResponseHeaders, now: number): number | undefined {
  const value = headers['retry-after'];
  if (typeof value !== 'string') return undefined;
  if (/^\s*\d+(\.\d+)?\s*$/.test(value)) return Number(value) * 1000;
  // Date.parse takes almost any number for a date.
  const until = /^\s*[a-z]{3}/i.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(until)) return undefined;
  const date = typeof headers.date === 'string' ? Date.parse(headers.date) : Number.NaN;
  return Math.max(0, until - (Number.isNaN(date) ? now : date));
}

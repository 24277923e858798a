import type { ServiceOptions } from '../core/service-options.js';
import type { AnswerHeaders } from './answer-collector.js';

/** The longest delay before the first retry; it doubles with each further retry. */
const baseDelayMs = 200;
/** Attempts before the service has ever answered: the user should learn of a wrong address within seconds. */
const firstContactAttempts = 3;
/** Throttling is tolerated for this many times the longest delay: five minutes by default. */
const throttlePatience = 5;

/**
 * The longest `Retry-After` that the client waits out. If the service asks for more, the request fails at once and says so:
 * the user should know of an outage that long.
 */
export const maxRetryAfterMs = 15 * 60_000;

export type RetryOptions = ServiceOptions['retry'];

/**
 * How often and after which waits one request is tried again: exponential backoff with full jitter. Failures and 429s are
 * counted separately. A request fails for good after `maxAttempts` failures. After 429s it fails only when there were
 * `maxAttempts` of them and five times `maxDelayMs` have passed since the first, because the budget adapts to 429s.
 */
export class RetrySchedule {
  readonly #options: RetryOptions;
  readonly #random: () => number;
  #failures = 0;
  #throttles = 0;
  #throttledSince = 0;

  constructor(options: RetryOptions, random: () => number) {
    this.#options = options;
    this.#random = random;
  }

  /** @returns milliseconds to wait before the next attempt; undefined if the request has failed for good */
  afterFailure(firstContact: boolean): number | undefined {
    this.#failures += 1;
    const { maxAttempts } = this.#options;
    const attempts = firstContact ? Math.min(maxAttempts, firstContactAttempts) : maxAttempts;
    return this.#failures >= attempts ? undefined : this.#delay(this.#failures);
  }

  /** The same after a 429. @param now a monotonic time in milliseconds */
  afterThrottle(now: number): number | undefined {
    if (this.#throttles === 0) this.#throttledSince = now;
    this.#throttles += 1;
    const { maxAttempts, maxDelayMs } = this.#options;
    const spent = this.#throttles >= maxAttempts && now - this.#throttledSince >= throttlePatience * maxDelayMs;
    return spent ? undefined : this.#delay(this.#throttles);
  }

  #delay(retry: number): number {
    return this.#random() * Math.min(this.#options.maxDelayMs, baseDelayMs * 2 ** Math.min(retry - 1, 30));
  }
}

/**
 * Milliseconds that `Retry-After` asks to wait, given as seconds or as a date; undefined if the header is missing or
 * unreadable. A date is compared with the answer's own `Date`, so that clocks need not agree.
 * @param now the time of day in milliseconds, used if the answer has no `Date`
 */
export function retryAfterMs(headers: AnswerHeaders, now: number): number | undefined {
  const value = headers['retry-after'];
  if (typeof value !== 'string') return undefined;
  if (/^\s*\d+(\.\d+)?\s*$/.test(value)) return Number(value) * 1000;
  // Date.parse takes almost any number for a date.
  const until = /^\s*[a-z]{3}/i.test(value) ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(until)) return undefined;
  const date = typeof headers.date === 'string' ? Date.parse(headers.date) : Number.NaN;
  return Math.max(0, until - (Number.isNaN(date) ? now : date));
}

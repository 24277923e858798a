import type { ServiceOptions } from '../core/service-options.js';
import type { AnswerHeaders } from './answer-collector.js';

/** The longest delay before the first retry; doubles from one to the next. */
const baseDelayMs = 200;
/** Attempts before the service has ever answered: a wrong address should be told within seconds. */
const firstContactAttempts = 3;
/** Throttling is borne for this many times the longest delay: five minutes by default. */
const throttlePatience = 5;

/**
 * The longest `Retry-After` that is waited out; asked for more, a request fails at once and says so: what is wrong for so
 * long is for the user to know.
 */
export const maxRetryAfterMs = 15 * 60_000;

export type RetryOptions = ServiceOptions['retry'];

/**
 * How often and after which waits one request is tried again: exponential backoff with full jitter. Failures and 429s are
 * counted apart: failures end after `maxAttempts`; 429s only when they have also gone on for five times `maxDelayMs`,
 * since the budget adapts to them.
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

  /** @returns milliseconds to wait before trying again; undefined where the request has failed for good */
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
 * Milliseconds that `Retry-After` asks to wait, from seconds or a date; undefined where there is none that can be read.
 * A date is taken against the answer's own `Date`, so that clocks need not agree.
 * @param now the time of day in milliseconds, where the answer has no `Date`
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

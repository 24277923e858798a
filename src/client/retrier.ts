import type { Clock } from '../core/clock.js';
import { interrupted } from './errors.js';
import { onAbort } from './on-abort.js';
import { type RetryOptions, RetrySchedule } from './retry-policy.js';
import { Setback } from './setback.js';
import { WaitNotices } from './wait-notices.js';

/** Repeats attempts that end with a {@link Setback}; the retry policy says how often and after which waits. */
export class Retrier {
  readonly #options: RetryOptions;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #notices: WaitNotices;

  /**
   * @param random returns numbers from 0 to 1, 1 excluded
   * @param tell gets a notice for each long wait that the service asks for
   */
  constructor(options: RetryOptions, clock: Clock, random: () => number, tell: (notice: string) => void) {
    this.#notices = new WaitNotices(tell, clock);
    this.#options = options;
    this.#clock = clock;
    this.#random = random;
  }

  /**
   * @param onRetry called before each further attempt
   * @throws {CdsyncError} the error of the last setback; `interrupted` as soon as the signal aborts
   */
  async run<T>(attempt: () => Promise<T>, signal: AbortSignal, onRetry: () => void): Promise<T> {
    let schedule: RetrySchedule | undefined;
    for (let attempts = 1; ; attempts += 1) {
      try {
        return await attempt();
      } catch (thrown) {
        if (!(thrown instanceof Setback)) throw thrown;
        schedule ??= new RetrySchedule(this.#options, this.#random);
        const delay = this.#delay(thrown, schedule);
        if (delay === undefined) throw thrown.toError(attempts);
        if (signal.aborted) throw interrupted(signal.reason);
        onRetry();
        const wait = Math.max(delay, thrown.waitMs);
        this.#notices.begins(thrown.waitMs, thrown.status);
        if (wait > 0) await this.#sleep(wait, signal);
      }
    }
  }

  #delay({ again, firstContact }: Setback, schedule: RetrySchedule): number | undefined {
    switch (again) {
      case 'never':
        return undefined;
      case 'at_once':
        return 0;
      case 'later':
        return schedule.afterFailure(firstContact);
      case 'when_allowed':
        return schedule.afterThrottle(this.#clock.monotonic());
    }
  }

  async #sleep(ms: number, signal: AbortSignal): Promise<void> {
    const stop = new AbortController();
    const release = onAbort(signal, () => stop.abort());
    try {
      await this.#clock.sleep(ms, stop.signal);
    } catch (error) {
      throw interrupted(error);
    } finally {
      release();
    }
  }
}

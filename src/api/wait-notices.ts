import type { Clock } from '../core/clock.js';
import { formatDuration } from '../core/quantities.js';

/** Shorter waits are not worth a line. */
const shortestMs = 5_000;
/** Requests that were under way together are refused one after the other, and each is told to wait. */
const sameWithinMs = 2_000;

/** Says that the service asked to wait, once for each wait, when it begins: otherwise nothing would seem to happen. */
export class RetryAfterNotices {
  readonly #tell: (notice: string) => void;
  readonly #clock: Clock;
  #toldUntil = Number.NEGATIVE_INFINITY;

  constructor(tell: (notice: string) => void, clock: Clock) {
    this.#tell = tell;
    this.#clock = clock;
  }

  /** @param ms how long the service asked to wait @param status of its answer */
  begins(ms: number, status: number): void {
    const until = this.#clock.monotonic() + ms;
    if (ms <= shortestMs || until <= this.#toldUntil + sameWithinMs) return;
    this.#toldUntil = until;
    this.#tell(`waiting ${formatDuration(ms)}: the service asked for it (${status})`);
  }
}

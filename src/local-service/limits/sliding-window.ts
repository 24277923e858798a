/**
 * Lets at most `limit` requests pass in any second. A second is half-open: two requests exactly one second apart fall into
 * different seconds. Refused requests do not count.
 */
export class SlidingWindow {
  readonly #passed: Float64Array;
  #oldest = 0;

  /** @param limit requests per second, a whole number from 1 */
  constructor(limit: number) {
    this.#passed = new Float64Array(limit).fill(Number.NEGATIVE_INFINITY);
  }

  /** Whether a request may pass; counts it if so. @param now in milliseconds, never less than before */
  pass(now: number): boolean {
    if (now - (this.#passed[this.#oldest] as number) < 1000) return false;
    this.#passed[this.#oldest] = now;
    this.#oldest = (this.#oldest + 1) % this.#passed.length;
    return true;
  }

  /** Milliseconds until the next request may pass. */
  wait(now: number): number {
    return Math.max(0, (this.#passed[this.#oldest] as number) + 1000 - now);
  }
}

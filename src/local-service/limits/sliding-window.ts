/**
 * Never lets more than `limit` requests pass in any second, half-open: of two requests exactly a second apart the second
 * one begins a new second. What is turned away does not count.
 */
export class SlidingWindow {
  readonly #passed: Float64Array;
  #oldest = 0;

  /** @param limit requests a second, a whole number from 1 */
  constructor(limit: number) {
    this.#passed = new Float64Array(limit).fill(Number.NEGATIVE_INFINITY);
  }

  /** True where a request at this time (milliseconds, never going back) may pass. */
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

/** After this many milliseconds a figure counts for about a third. */
const memoryMs = 10_000;

/**
 * How fast counters grow: a mean in which recent growth counts more. It is the plain mean at first, so that it is right from
 * the first seconds on, and follows a change within some ten seconds.
 */
export class RateEstimate {
  #at: number;
  #counts: readonly number[];
  #weight = 0;
  readonly #sums: number[];

  /** @param at in milliseconds of a clock that never goes back @param counts the counters then */
  constructor(at: number, counts: readonly number[]) {
    this.#at = at;
    this.#counts = counts;
    this.#sums = counts.map(() => 0);
  }

  /** Takes the counters in. */
  observe(at: number, counts: readonly number[]): void {
    const passed = at - this.#at;
    if (passed <= 0) return;
    const kept = Math.exp(-passed / memoryMs);
    this.#weight = this.#weight * kept + passed;
    for (const [which, count] of counts.entries())
      this.#sums[which] = (this.#sums[which] ?? 0) * kept + (count - (this.#counts[which] ?? 0));
    this.#at = at;
    this.#counts = counts;
  }

  /** Growth of a counter in a second. */
  perSecond(which: number): number {
    return this.#weight === 0 ? 0 : Math.max(0, ((this.#sums[which] ?? 0) / this.#weight) * 1000);
  }
}

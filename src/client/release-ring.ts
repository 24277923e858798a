/** The times at which permits become free, in ascending order, in a ring of fixed size. */
export class ReleaseRing {
  readonly #times: Float64Array;
  #head = 0;
  #count = 0;

  constructor(capacity: number) {
    this.#times = new Float64Array(capacity);
  }

  get count(): number {
    return this.#count;
  }

  /** The earliest time; infinite if there is none. */
  get earliest(): number {
    return this.#count === 0 ? Number.POSITIVE_INFINITY : (this.#times[this.#head] as number);
  }

  /** @param time not before any time added so far */
  push(time: number): void {
    const size = this.#times.length;
    const end = this.#head + this.#count;
    this.#times[end < size ? end : end - size] = time;
    this.#count += 1;
  }

  /** Removes all times up to and including `now`. */
  dropUntil(now: number): void {
    const times = this.#times;
    while (this.#count > 0 && (times[this.#head] as number) <= now) {
      this.#head = this.#head + 1 === times.length ? 0 : this.#head + 1;
      this.#count -= 1;
    }
  }
}

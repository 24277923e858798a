/** The times at which permits become free, in ascending order, in a ring that grows as needed. */
export class ReleaseRing {
  #times = new Float64Array(64);
  #head = 0;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** The time from which fewer than `count - n` are left: `nth(0)` is the earliest; infinite if there are not so many. */
  nth(n: number): number {
    if (n >= this.#count) return Number.POSITIVE_INFINITY;
    return this.#times[(this.#head + n) % this.#times.length] as number;
  }

  /** @param time not before any time added so far */
  push(time: number): void {
    if (this.#count === this.#times.length) this.#grow();
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

  #grow(): void {
    const larger = new Float64Array(this.#times.length * 2);
    larger.set(this.#times.subarray(this.#head));
    larger.set(this.#times.subarray(0, this.#head), this.#times.length - this.#head);
    this.#times = larger;
    this.#head = 0;
  }
}

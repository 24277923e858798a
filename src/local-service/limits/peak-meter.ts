/** The most requests that have come in any second, including refused ones. */
export class PeakMeter {
  peak = 0;
  #times = new Float64Array(4096);
  #first = 0;
  #count = 0;

  /** Counts a request. @param now in milliseconds, never less than before */
  add(now: number): void {
    while (this.#count > 0 && now - (this.#times[this.#first] as number) >= 1000) {
      this.#first = (this.#first + 1) % this.#times.length;
      this.#count -= 1;
    }
    if (this.#count === this.#times.length) this.#grow();
    this.#times[(this.#first + this.#count) % this.#times.length] = now;
    this.#count += 1;
    if (this.#count > this.peak) this.peak = this.#count;
  }

  reset(): void {
    this.peak = 0;
    this.#count = 0;
  }

  #grow(): void {
    const larger = new Float64Array(this.#times.length * 2);
    larger.set(this.#times.subarray(this.#first));
    larger.set(this.#times.subarray(0, this.#first), this.#times.length - this.#first);
    this.#times = larger;
    this.#first = 0;
  }
}

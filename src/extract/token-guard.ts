/**
 * Notices that a chain of page tokens runs in a circle, in constant memory: Brent's algorithm ("An improved Monte Carlo
 * factorization algorithm", BIT 20, 1980) keeps one earlier token, and replaces it at powers of two.
 */
export class CycleDetector {
  #kept: string | null = null;
  #last: string | null = null;
  #steps = 0;
  #power = 1;

  /** Takes the next token of the chain. Returns true if the chain runs in a circle. */
  repeats(token: string): boolean {
    if (token === this.#kept || token === this.#last) return true;
    this.#last = token;
    this.#steps += 1;
    if (this.#steps === this.#power) {
      this.#kept = token;
      this.#power *= 2;
      this.#steps = 0;
    }
    return false;
  }
}

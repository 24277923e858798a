const smallest = 64 * 1024;
const nothing = Buffer.alloc(0);

/**
 * Collects a body in one buffer. A list of chunks would take the memory twice in the end, and much more where each chunk
 * has few bytes.
 */
export class BodyBuffer {
  readonly #stated: number;
  #bytes: Buffer = nothing;
  #size = 0;

  /** @param stated the length of the body by its headers; 0 if they do not say */
  constructor(stated: number) {
    this.#stated = stated;
  }

  get size(): number {
    return this.#size;
  }

  add(chunk: Buffer): void {
    const size = this.#size + chunk.length;
    // Most small bodies come in one chunk, which needs no copy.
    if (this.#size === 0 && chunk.length >= this.#stated) this.#bytes = chunk;
    else {
      if (size > this.#bytes.length) this.#grow(size);
      this.#bytes.set(chunk, this.#size);
    }
    this.#size = size;
  }

  /** The body so far. */
  whole(): Buffer {
    return this.#size === this.#bytes.length ? this.#bytes : this.#bytes.subarray(0, this.#size);
  }

  #grow(size: number): void {
    const grown = Buffer.allocUnsafe(Math.max(this.#stated, size, 2 * this.#bytes.length, smallest));
    grown.set(this.#size === this.#bytes.length ? this.#bytes : this.#bytes.subarray(0, this.#size));
    this.#bytes = grown;
  }
}

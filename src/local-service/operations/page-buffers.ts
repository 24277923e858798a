const smallest = 1 << 12;
const maxIdleBytes = 1 << 25;

/** Buffers for pages, used again and again: making one of 85 kB for each page would keep the garbage collector busy. */
export class PageBuffers {
  readonly #idle = new Map<number, Buffer[]>();
  #idleBytes = 0;

  /** A buffer of at least this size. */
  take(size: number): Buffer {
    let rounded = smallest;
    while (rounded < size) rounded *= 2;
    const buffer = this.#idle.get(rounded)?.pop();
    if (buffer === undefined) return Buffer.allocUnsafeSlow(rounded);
    this.#idleBytes -= rounded;
    return buffer;
  }

  /** Takes one back that nobody will read or write any more. */
  give(buffer: Buffer): void {
    if (this.#idleBytes + buffer.length > maxIdleBytes) return;
    const idle = this.#idle.get(buffer.length);
    if (idle === undefined) this.#idle.set(buffer.length, [buffer]);
    else idle.push(buffer);
    this.#idleBytes += buffer.length;
  }
}

const smallest = 1 << 12;
const maxIdleBytes = 1 << 25;

/** Reuses the buffers of pages: a new one of 85 kB for each page would keep the garbage collector busy. */
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

  /** Takes a buffer back. The caller must not use it afterwards. */
  give(buffer: Buffer): void {
    if (this.#idleBytes + buffer.length > maxIdleBytes) return;
    const idle = this.#idle.get(buffer.length);
    if (idle === undefined) this.#idle.set(buffer.length, [buffer]);
    else idle.push(buffer);
    this.#idleBytes += buffer.length;
  }
}

/** The memory of a run's record caches, which all of its streams share: a stream that finds too little converts every record. */
export class CacheMemory {
  readonly #bytes = new Map<string, number>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  /** Bytes that the caches of the other streams leave. */
  freeFor(stream: string): number {
    return [...this.#bytes].reduce((free, [name, bytes]) => (name === stream ? free : free - bytes), this.#most);
  }

  /** Notes the size of a stream's cache; 0 once it has none. */
  set(stream: string, bytes: number): void {
    this.#bytes.set(stream, bytes);
  }
}

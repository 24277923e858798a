import { UnusableCache } from './cache-file.js';

/** The memory of a run's record caches, which all of its streams share: a stream that finds too little converts every record. */
export class CacheMemory {
  readonly #bytes = new Map<string, number>();
  readonly #most: number;
  readonly #onChange: (bytes: number) => Promise<void>;

  /** @param onChange gets the bytes of all caches: others have that much less memory */
  constructor(most: number, onChange: (bytes: number) => Promise<void> = async () => undefined) {
    this.#most = most;
    this.#onChange = onChange;
  }

  /** Bytes that the caches of the other streams leave. */
  freeFor(stream: string): number {
    return [...this.#bytes].reduce((free, [name, bytes]) => (name === stream ? free : free - bytes), this.#most);
  }

  /** Bytes of all caches. */
  get bytes(): number {
    return this.#most - this.freeFor('');
  }

  /** Reserves memory for a stream's cache. Others may still use it until {@link hold}. */
  reserve(stream: string, bytes: number): void {
    this.#bytes.set(stream, bytes);
  }

  /** Notes the size of a stream's cache; 0 once it has none. */
  async hold(stream: string, bytes: number): Promise<void> {
    const before = this.#bytes.get(stream) ?? 0;
    if (before === 0 && bytes === 0) return;
    this.reserve(stream, bytes);
    await this.#onChange(this.bytes);
  }
}

/** @throws {UnusableCache} if the other streams leave less than that for a stream's cache */
export function requireFree(caches: CacheMemory, stream: string, bytes: number): void {
  const freeBytes = caches.freeFor(stream);
  if (bytes <= freeBytes) return;
  const [needed, free] = [Math.ceil(bytes / 1_000_000), Math.floor(freeBytes / 1_000_000)];
  throw new UnusableCache(
    `the record cache takes ${needed} MB, and of the part of \`memory_mb\` that all caches share, ${free} MB are free`,
  );
}

/** What an instance of DuckDB may use, for all sessions together. */
export interface Limits {
  readonly memoryMb: number;
  readonly threads: number;
}

/**
 * Limits of one instance, which different work wants to be lower for a while. The smallest that any work under way asks for is in
 * force, and the full ones as soon as none does.
 */
export class SharedLimits {
  readonly #most: Limits;
  readonly #set: (setting: string) => Promise<void>;
  readonly #asked = new Set<Partial<Limits>>();
  #roomMb = 0;
  #inForce: Limits;
  #changing: Promise<void> = Promise.resolve();

  /** @param set runs a SET statement */
  constructor(most: Limits, set: (setting: string) => Promise<void>) {
    this.#most = most;
    this.#inForce = most;
    this.#set = set;
  }

  /** Runs `work` within these limits. */
  async within<T>(limits: Partial<Limits>, work: () => Promise<T>): Promise<T> {
    const asked = { ...limits };
    this.#asked.add(asked);
    try {
      await this.#change();
      return await work();
    } finally {
      this.#asked.delete(asked);
      await this.#change();
    }
  }

  /** Adds memory to every limit from now on: memory that DuckDB counts but does not touch. */
  async makeRoom(memoryMb: number): Promise<void> {
    this.#roomMb = Math.max(this.#roomMb, memoryMb);
    await this.#change();
  }

  #change(): Promise<void> {
    this.#changing = this.#changing.then(async () => {
      const all = [this.#most, ...this.#asked];
      const threads = Math.min(...all.flatMap((limits) => limits.threads ?? []));
      const memoryMb = Math.min(...all.flatMap((limits) => limits.memoryMb ?? [])) + this.#roomMb;
      const { threads: threadsBefore, memoryMb: memoryBefore } = this.#inForce;
      this.#inForce = { threads, memoryMb };
      if (threads !== threadsBefore) await this.#set(`threads = ${threads}`);
      if (memoryMb === memoryBefore) return;
      const isSet = this.#set(`memory_limit = '${memoryMb}MB'`);
      // More than a lower limit may be in use and not be freed at once. Then the limit stays as it was.
      await (memoryMb < memoryBefore ? isSet.catch(() => undefined) : isSet);
    });
    return this.#changing;
  }
}

import { planMemory, type Resources } from './memory-plan.js';

/** The memory for the deliveries of a job. */
export function sharesOf(resources: Resources): MemoryShares {
  return new MemoryShares(planMemory(resources).deliveriesMb);
}

/** The memory of a job: works that run at once take shares of it. Where these do not suffice, the works take turns. */
export class MemoryShares {
  #freeMb: number;
  readonly #waiting: { readonly mb: number; readonly begin: () => void }[] = [];

  constructor(memoryMb: number) {
    this.#freeMb = memoryMb;
  }

  /** Does the work as soon as its share is free, in the order in which shares were asked for. @param mb at most the whole memory */
  async within<T>(mb: number, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((begin) => {
      this.#waiting.push({ mb, begin });
      this.#serve();
    });
    try {
      return await work();
    } finally {
      this.#freeMb += mb;
      this.#serve();
    }
  }

  #serve(): void {
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined || next.mb > this.#freeMb) return;
      this.#waiting.shift();
      this.#freeMb -= next.mb;
      next.begin();
    }
  }
}

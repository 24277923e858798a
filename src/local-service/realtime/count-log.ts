/** How many profiles a collection had from a time on. `at` is in milliseconds since the Unix epoch. */
export interface Count {
  readonly at: number;
  readonly total: number;
}

const minuteMs = 60_000;
const growthMs = 730 * 86_400_000;

/**
 * The sizes of a collection over time. Before the service's first start they are invented: the collection grows to its
 * size at that start. Afterwards they are the real ones, to the minute.
 */
export class CountLog {
  readonly #origin: number;
  readonly #first: number;
  readonly #counts: Count[];

  /** @param first number of profiles at the service's first start, `origin` */
  constructor(origin: number, first: number, counts: readonly Count[] = []) {
    this.#origin = origin;
    this.#first = first;
    this.#counts = [...counts];
  }

  get all(): readonly Count[] {
    return this.#counts;
  }

  /** Adds a size. If the clock went back, it uses the time of the last size, so that the order stays. */
  add(now: number, total: number): void {
    const last = this.#counts.at(-1);
    if (total === (last?.total ?? this.#first)) return;
    const at = Math.max(now, last?.at ?? this.#origin);
    if (last !== undefined && Math.floor(last.at / minuteMs) === Math.floor(at / minuteMs)) this.#counts.pop();
    this.#counts.push({ at, total });
  }

  /** The size just before a time. */
  before(time: number): number {
    if (time <= this.#origin) return this.#past(time);
    let [from, to] = [0, this.#counts.length];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if ((this.#counts[middle] as Count).at < time) from = middle + 1;
      else to = middle;
    }
    return this.#counts[from - 1]?.total ?? this.#first;
  }

  #past(time: number): number {
    const ahead = Math.min(1, (this.#origin - time) / growthMs);
    return Math.floor(this.#first * (1 - ahead * ahead));
  }
}

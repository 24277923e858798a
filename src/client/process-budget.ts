import type { Clock } from '../core/clock.js';
import type { Account, Allowance, Budget } from './budget.js';
import { Limiter } from './limiter.js';

/** A budget that the engines of one process share: one limiter for each account. */
export class ProcessBudget implements Budget {
  readonly #clock: Clock;
  readonly #limiters = new Map<string, Limiter>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  allowance({ baseUrl, family, group }: Account, limit: number): Allowance {
    const key = JSON.stringify([baseUrl, family, group]);
    const known = this.#limiters.get(key);
    if (known !== undefined) {
      known.lower(limit);
      return known;
    }
    const limiter = new Limiter(limit, this.#clock);
    this.#limiters.set(key, limiter);
    return limiter;
  }

  async close(): Promise<void> {
    this.#limiters.clear();
  }
}

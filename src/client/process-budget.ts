import type { Clock } from '../core/clock.js';
import { type Account, type Allowance, accountKey, type Budget } from './budget.js';
import { LearnedLimit } from './learned-limit.js';
import { Limiter } from './limiter.js';

/** A budget that the engines of one process share: one limiter for each account. */
export class ProcessBudget implements Budget {
  readonly #clock: Clock;
  readonly #accounts = new Map<string, { readonly limiter: Limiter; readonly learned: LearnedLimit }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  allowance(account: Account, limit: number): Allowance {
    const key = accountKey(account);
    let known = this.#accounts.get(key);
    if (known === undefined) {
      const learned = new LearnedLimit(limit);
      known = { learned, limiter: new Limiter(learned, this.#clock) };
      this.#accounts.set(key, known);
    }
    known.learned.lower(limit);
    return known.limiter;
  }

  async close(): Promise<void> {
    this.#accounts.clear();
  }
}

import { type Clock, systemClock } from '../core/clock.js';
import { AdaptiveLimit } from './adaptive-limit.js';
import { type Account, accountKey, type Budget, type RateLimiter } from './budget.js';
import type { BudgetOptions } from './budget-options.js';
import { FileLeases } from './file-leases.js';
import type { LeaseStore } from './leases.js';
import { SlidingWindowLimiter } from './limiter.js';
import { PostgresLeases } from './postgres-leases.js';
import { SharedLimit } from './shared-limit.js';

/** A budget that the engines of one process share: one limiter for each account. */
export class ProcessBudget implements Budget {
  readonly #clock: Clock;
  readonly #accounts = new Map<string, { readonly limiter: SlidingWindowLimiter; readonly learned: AdaptiveLimit }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  limiterFor(account: Account, limit: number): RateLimiter {
    const key = accountKey(account);
    let entry = this.#accounts.get(key);
    if (entry === undefined) {
      const learned = new AdaptiveLimit(limit);
      entry = { learned, limiter: new SlidingWindowLimiter(learned, this.#clock) };
      this.#accounts.set(key, entry);
    }
    entry.learned.lower(limit);
    return entry.limiter;
  }

  async close(): Promise<void> {
    this.#accounts.clear();
  }
}

/** A budget for all processes that use one store of leases. */
class SharedBudget implements Budget {
  readonly #clock: Clock;
  readonly #store: LeaseStore;
  readonly #limiters = new Map<string, SharedLimit>();
  #hasNoticed = false;

  constructor(clock: Clock, store: LeaseStore) {
    this.#clock = clock;
    this.#store = store;
  }

  limiterFor(account: Account, limit: number): RateLimiter {
    const key = accountKey(account);
    let limiter = this.#limiters.get(key);
    if (limiter === undefined) {
      const onAlone = (why: unknown) => this.#alone(why);
      limiter = new SharedLimit(limit, this.#clock, { store: this.#store, account: key, onAlone });
      this.#limiters.set(key, limiter);
    }
    limiter.lower(limit);
    return limiter;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#limiters.values()].map((limiter) => limiter.close()));
    this.#limiters.clear();
    await this.#store.close();
  }

  #alone(why: unknown): void {
    if (this.#hasNoticed) return;
    this.#hasNoticed = true;
    const reason = why instanceof Error ? why.message : String(why);
    this.#store.notice(`warning: the rate limits are not shared with other processes of this machine: ${reason}`);
  }
}

/**
 * Creates the budget of a program. All engines that get the same budget together keep within one limit.
 *
 * @param options `shared: 'machine'`, the default: other processes of this user on this machine keep within it too; a database:
 *   all processes that use it. `'none'`: this process alone
 * @param notice called if other processes cannot be found
 */
export function openBudget(
  { shared }: BudgetOptions = { shared: 'machine' },
  notice: (line: string) => void = () => undefined,
): Budget {
  if (shared === 'none') return new ProcessBudget(systemClock);
  const store = shared === 'machine' ? new FileLeases(notice) : new PostgresLeases(shared.postgres, notice);
  return new SharedBudget(systemClock, store);
}

import { type Clock, systemClock } from '../core/clock.js';
import type { Secret } from '../core/secret.js';
import type { BudgetOptions } from '../core/service-options.js';
import { AdaptiveLimit } from './adaptive-limit.js';
import { type Account, accountKey, type Budget, type RateLimiter } from './budget.js';
import { LedgerRole } from './lease-role.js';
import { SlidingWindowLimiter } from './limiter.js';
import { MeetingPlace, runtimeFolder } from './meeting-place.js';
import { MemberRole } from './member-role.js';
import { longestUseMs, OwnerRole } from './owner-role.js';
import { PostgresLeases } from './postgres-leases.js';
import { SharedLimit } from './shared-limit.js';
import type { Enter } from './sharing-role.js';

/** A budget that the engines of one process share: one limiter for each account. */
export class ProcessBudget implements Budget {
  readonly #clock: Clock;
  readonly #accounts = new Map<string, { readonly limiter: SlidingWindowLimiter; readonly learned: AdaptiveLimit }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  allowance(account: Account, limit: number): RateLimiter {
    const key = accountKey(account);
    let known = this.#accounts.get(key);
    if (known === undefined) {
      const learned = new AdaptiveLimit(limit);
      known = { learned, limiter: new SlidingWindowLimiter(learned, this.#clock) };
      this.#accounts.set(key, known);
    }
    known.learned.lower(limit);
    return known.limiter;
  }

  async close(): Promise<void> {
    this.#accounts.clear();
  }
}

/** A budget that the processes of one user on one machine share: each account has an owner, which divides the limit. */
class MachineBudget implements Budget {
  readonly #clock: Clock;
  readonly #folder: () => Promise<string>;
  readonly #notice: (line: string) => void;
  readonly #allowances = new Map<string, SharedLimit>();
  #hasTold = false;

  /** @param notice told once if the processes of this user cannot find each other */
  constructor(clock: Clock, notice: (line: string) => void, folder: () => Promise<string> = runtimeFolder) {
    this.#clock = clock;
    this.#notice = notice;
    this.#folder = folder;
  }

  allowance(account: Account, limit: number): RateLimiter {
    const key = accountKey(account);
    let allowance = this.#allowances.get(key);
    if (allowance === undefined) {
      const enter: Enter = async (sharing, lease, silent) => {
        const found = await new MeetingPlace(await this.#folder(), account).enter(longestUseMs, silent);
        return found.role === 'owner'
          ? new OwnerRole(sharing, found.claim, lease())
          : new MemberRole(sharing, found.socket, { generation: found.generation, lease: lease() });
      };
      allowance = new SharedLimit(limit, this.#clock, { enter, onAlone: (why) => this.#alone(why) });
      this.#allowances.set(key, allowance);
    }
    allowance.lower(limit);
    return allowance;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#allowances.values()].map((allowance) => allowance.close()));
    this.#allowances.clear();
  }

  #alone(why: unknown): void {
    if (this.#hasTold) return;
    this.#hasTold = true;
    const reason = why instanceof Error ? why.message : String(why);
    this.#notice(`warning: the rate limits are not shared with other processes of this machine: ${reason}`);
  }
}

/** A budget that all processes share that name the same database, on any machine. */
class FleetBudget implements Budget {
  readonly #clock: Clock;
  readonly #ledger: PostgresLeases;
  readonly #allowances = new Map<string, SharedLimit>();

  /** @param notice told when the database goes away, when it is back, and if the limits of the processes differ */
  constructor(clock: Clock, url: Secret, notice: (line: string) => void) {
    this.#clock = clock;
    this.#ledger = new PostgresLeases(url, notice);
  }

  allowance(account: Account, limit: number): RateLimiter {
    const key = accountKey(account);
    let allowance = this.#allowances.get(key);
    if (allowance === undefined) {
      allowance = new SharedLimit(limit, this.#clock, {
        enter: async (sharing) => new LedgerRole(sharing, this.#ledger, key),
        onAlone: () => undefined,
      });
      this.#allowances.set(key, allowance);
    }
    allowance.lower(limit);
    return allowance;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#allowances.values()].map((allowance) => allowance.close()));
    this.#allowances.clear();
    await this.#ledger.close();
  }
}

/**
 * Creates the budget of a program. All engines that get the same budget together keep within one limit.
 *
 * @param options `shared: 'machine'`, the default: other processes of this user on this machine keep within it too; a database:
 *   all processes that name it. `'none'`: nobody else
 * @param notice told if other processes cannot be found
 */
export function openBudget(
  { shared }: BudgetOptions = { shared: 'machine' },
  notice: (line: string) => void = () => undefined,
): Budget {
  if (shared === 'none') return new ProcessBudget(systemClock);
  return shared === 'machine'
    ? new MachineBudget(systemClock, notice)
    : new FleetBudget(systemClock, shared.postgres, notice);
}

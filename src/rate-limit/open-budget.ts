import { type Clock, systemClock } from '../core/clock.js';
import type { Secret } from '../core/secret.js';
import { AdaptiveLimit } from './adaptive-limit.js';
import { type Account, accountKey, type Budget, type RateLimiter } from './budget.js';
import type { BudgetOptions } from './budget-options.js';
import { LeaseParticipant } from './lease-participant.js';
import { LimitSocket, runtimeFolder } from './limit-socket.js';
import { SlidingWindowLimiter } from './limiter.js';
import type { Join } from './participant.js';
import { PostgresLeases } from './postgres-leases.js';
import { SharedLimit } from './shared-limit.js';
import { SocketMember } from './socket-member.js';
import { longestUseMs, SocketOwner } from './socket-owner.js';

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

/** A budget for all processes of one user on one machine: one process owns each account's socket, and divides the limit. */
class MachineBudget implements Budget {
  readonly #clock: Clock;
  readonly #folder: () => Promise<string>;
  readonly #notice: (line: string) => void;
  readonly #limiters = new Map<string, SharedLimit>();
  #hasNoticed = false;

  /** @param notice called once if the processes of this user cannot find each other */
  constructor(clock: Clock, notice: (line: string) => void, folder: () => Promise<string> = runtimeFolder) {
    this.#clock = clock;
    this.#notice = notice;
    this.#folder = folder;
  }

  allowance(account: Account, limit: number): RateLimiter {
    const key = accountKey(account);
    let allowance = this.#limiters.get(key);
    if (allowance === undefined) {
      const join: Join = async (context, lease, silent) => {
        const found = await new LimitSocket(await this.#folder(), account).join(longestUseMs, silent);
        return found.role === 'owner'
          ? new SocketOwner(context, found.ownership, lease())
          : new SocketMember(context, found.socket, { generation: found.generation, lease: lease() });
      };
      allowance = new SharedLimit(limit, this.#clock, { join, onAlone: (why) => this.#alone(why) });
      this.#limiters.set(key, allowance);
    }
    allowance.lower(limit);
    return allowance;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#limiters.values()].map((allowance) => allowance.close()));
    this.#limiters.clear();
  }

  #alone(why: unknown): void {
    if (this.#hasNoticed) return;
    this.#hasNoticed = true;
    const reason = why instanceof Error ? why.message : String(why);
    this.#notice(`warning: the rate limits are not shared with other processes of this machine: ${reason}`);
  }
}

/** A budget for all processes that use the same database, on any machine. */
class FleetBudget implements Budget {
  readonly #clock: Clock;
  readonly #leases: PostgresLeases;
  readonly #limiters = new Map<string, SharedLimit>();

  /** @param notice called when the database is away, when it is back, and if the limits of the processes differ */
  constructor(clock: Clock, url: Secret, notice: (line: string) => void) {
    this.#clock = clock;
    this.#leases = new PostgresLeases(url, notice);
  }

  allowance(account: Account, limit: number): RateLimiter {
    const key = accountKey(account);
    let allowance = this.#limiters.get(key);
    if (allowance === undefined) {
      allowance = new SharedLimit(limit, this.#clock, {
        join: async (context) => new LeaseParticipant(context, this.#leases, key),
        onAlone: () => undefined,
      });
      this.#limiters.set(key, allowance);
    }
    allowance.lower(limit);
    return allowance;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#limiters.values()].map((allowance) => allowance.close()));
    this.#limiters.clear();
    await this.#leases.close();
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
  return shared === 'machine'
    ? new MachineBudget(systemClock, notice)
    : new FleetBudget(systemClock, shared.postgres, notice);
}

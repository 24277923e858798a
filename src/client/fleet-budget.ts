import type { Clock } from '../core/clock.js';
import type { Secret } from '../core/secret.js';
import { type Account, type Allowance, accountKey, type Budget } from './budget.js';
import { LedgerRole } from './ledger-role.js';
import { PostgresLedger } from './postgres-ledger.js';
import { SharedAllowance } from './shared-allowance.js';

/** A budget that all processes share that name the same database, on any machine. */
export class FleetBudget implements Budget {
  readonly #clock: Clock;
  readonly #ledger: PostgresLedger;
  readonly #allowances = new Map<string, SharedAllowance>();

  /** @param notice told when the database goes away, when it is back, and if the limits of the processes differ */
  constructor(clock: Clock, url: Secret, notice: (line: string) => void) {
    this.#clock = clock;
    this.#ledger = new PostgresLedger(url, notice);
  }

  allowance(account: Account, limit: number): Allowance {
    const key = accountKey(account);
    let allowance = this.#allowances.get(key);
    if (allowance === undefined) {
      allowance = new SharedAllowance(limit, this.#clock, {
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

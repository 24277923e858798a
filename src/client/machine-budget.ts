import type { Clock } from '../core/clock.js';
import { type Account, type Allowance, accountKey, type Budget } from './budget.js';
import { MeetingPlace } from './meeting-place.js';
import { MemberRole } from './member-role.js';
import { longestUseMs, OwnerRole } from './owner-role.js';
import { runtimeFolder } from './runtime-folder.js';
import { SharedAllowance } from './shared-allowance.js';
import type { Enter } from './sharing-role.js';

/** A budget that the processes of one user on one machine share: each account has an owner, which divides the limit. */
export class MachineBudget implements Budget {
  readonly #clock: Clock;
  readonly #folder: () => Promise<string>;
  readonly #notice: (line: string) => void;
  readonly #allowances = new Map<string, SharedAllowance>();
  #hasTold = false;

  /** @param notice told once if the processes of this user cannot find each other */
  constructor(clock: Clock, notice: (line: string) => void, folder: () => Promise<string> = runtimeFolder) {
    this.#clock = clock;
    this.#notice = notice;
    this.#folder = folder;
  }

  allowance(account: Account, limit: number): Allowance {
    const key = accountKey(account);
    let allowance = this.#allowances.get(key);
    if (allowance === undefined) {
      const enter: Enter = async (sharing, lease, silent) => {
        const found = await new MeetingPlace(await this.#folder(), account).enter(longestUseMs, silent);
        return found.role === 'owner'
          ? new OwnerRole(sharing, found.claim, lease())
          : new MemberRole(sharing, found.socket, { generation: found.generation, lease: lease() });
      };
      allowance = new SharedAllowance(limit, this.#clock, { enter, onAlone: (why) => this.#alone(why) });
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

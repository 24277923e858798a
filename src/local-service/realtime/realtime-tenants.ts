import type { DayShares } from '../data/moment.js';
import type { RealtimeChange } from './net-change.js';
import type { SavedRealtime } from './saved-realtime.js';
import { TenantRealtime } from './tenant-realtime.js';

export interface RealtimeOptions {
  readonly seed: number;
  readonly profiles: number;
  readonly days: readonly DayShares[];
  /** The time of day, which is that of the first start where nothing is saved. */
  readonly now: number;
  readonly saved?: SavedRealtime | undefined;
}

/** The real-time features of all tenants, each made when it is first asked for. */
export class RealtimeTenants {
  readonly #options: RealtimeOptions;
  readonly #origin: number;
  readonly #tenants = new Map<string, TenantRealtime>();
  #days: readonly DayShares[];

  constructor(options: RealtimeOptions) {
    this.#options = options;
    this.#origin = options.saved?.origin ?? options.now;
    this.#days = options.days;
  }

  of(tenant: string): TenantRealtime {
    let found = this.#tenants.get(tenant);
    if (found === undefined) {
      const { seed, profiles, saved } = this.#options;
      const options = { tenant, seed, profiles, days: this.#days, origin: this.#origin };
      found = new TenantRealtime({ ...options, saved: saved?.tenants[tenant] });
      this.#tenants.set(tenant, found);
    }
    return found;
  }

  /** Days pass for all; tells what they did for this one. */
  moveTo(days: readonly DayShares[], tenant: string, now: number): RealtimeChange {
    const shown = this.of(tenant);
    this.#days = days;
    for (const other of this.#tenants.values()) if (other !== shown) other.moveTo(days, now);
    return shown.moveTo(days, now);
  }

  get saved(): SavedRealtime {
    const live = [...this.#tenants].map(([tenant, { saved }]) => [tenant, saved] as const);
    return { origin: this.#origin, tenants: { ...this.#options.saved?.tenants, ...Object.fromEntries(live) } };
  }
}

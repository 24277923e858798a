import type { Clock } from '../core/clock.js';
import type { ApiGroup, ServiceOptions } from '../core/service-options.js';
import { Limiter } from './limiter.js';

/** A tenant and its sandboxes, which share one budget (specification, section 8): `acme-sb-2` belongs to `acme`. */
export function tenantFamily(tenantId: string): string {
  return tenantId.replace(/-sb-\d+$/, '');
}

/** One limiter for each base URL, tenant family and group of the API; clients that share a registry share the budgets. */
export class LimiterRegistry {
  readonly #clock: Clock;
  readonly #limiters = new Map<string, Limiter>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The limiter of a group; where two clients give different limits, the smaller one holds for both. */
  obtain(service: Pick<ServiceOptions, 'baseUrl' | 'tenantId' | 'rateLimits'>, group: ApiGroup): Limiter {
    const key = JSON.stringify([service.baseUrl.toLowerCase(), tenantFamily(service.tenantId), group]);
    const limit = service.rateLimits[group];
    const known = this.#limiters.get(key);
    if (known !== undefined) {
      known.lower(limit);
      return known;
    }
    const limiter = new Limiter(limit, this.#clock);
    this.#limiters.set(key, limiter);
    return limiter;
  }

  /** Stops all timers; to be called when nothing waits any more. */
  close(): void {
    for (const limiter of this.#limiters.values()) limiter.close();
  }
}

import type { ApiGroup } from '../../core/service-options.js';
import { tenantFamily } from '../tenant-family.js';
import { PeakMeter } from './peak-meter.js';
import { SlidingWindow } from './sliding-window.js';

/** Requests per second for each group of the API; 0 sets no limit. */
export type RateLimits = Readonly<Record<ApiGroup, number>>;

/** The published limits: 2000 for the Profile API (specification, section 8), 10 for the Management API, no other. */
export const publishedLimits: RateLimits = { profile: 2000, management: 10, realtime: 0 };

interface Counter {
  readonly window: SlidingWindow | undefined;
  readonly meter: PeakMeter;
}

/** For each group, a tenant and its sandboxes share one budget of requests (specification, section 8). */
export class FamilyLimits {
  readonly #limits: RateLimits;
  readonly #counters = new Map<string, Map<ApiGroup, Counter>>();
  readonly #families = new Map<string, Map<ApiGroup, Counter>>();

  constructor(limits: RateLimits) {
    this.#limits = limits;
  }

  /** Counts a request. Returns 0 if it passes, otherwise the milliseconds until one may pass. */
  arrive(tenant: string, group: ApiGroup, now: number): number {
    const { window, meter } = this.#counter(tenant, group);
    meter.add(now);
    return window === undefined || window.pass(now) ? 0 : window.wait(now);
  }

  /** The most requests in any second, by family and group. */
  peaks(): Record<string, Partial<Record<ApiGroup, number>>> {
    return Object.fromEntries(
      [...this.#families].map(([family, groups]) => [
        family,
        Object.fromEntries([...groups].map(([group, { meter }]) => [group, meter.peak])),
      ]),
    );
  }

  resetPeaks(): void {
    for (const groups of this.#families.values()) for (const { meter } of groups.values()) meter.reset();
  }

  #counter(tenant: string, group: ApiGroup): Counter {
    let groups = this.#counters.get(tenant);
    if (groups === undefined) {
      const family = tenantFamily(tenant);
      groups = this.#families.get(family) ?? new Map();
      this.#families.set(family, groups);
      this.#counters.set(tenant, groups);
    }
    let counter = groups.get(group);
    if (counter === undefined) {
      const limit = this.#limits[group];
      counter = { window: limit > 0 ? new SlidingWindow(limit) : undefined, meter: new PeakMeter() };
      groups.set(group, counter);
    }
    return counter;
  }
}

import type { ApiGroup } from '../../core/service-options.js';
import { tenantFamily } from '../keys/key-store.js';

/**
 * Lets at most `limit` requests pass in any second. A second is half-open: two requests exactly one second apart fall into
 * different seconds. Refused requests do not count.
 */
export class SlidingWindow {
  readonly #passed: Float64Array;
  #oldest = 0;

  /** @param limit requests per second, a whole number from 1 */
  constructor(limit: number) {
    this.#passed = new Float64Array(limit).fill(Number.NEGATIVE_INFINITY);
  }

  /** Whether a request may pass; counts it if so. @param nowMs in milliseconds, never less than before */
  pass(nowMs: number): boolean {
    if (nowMs - (this.#passed[this.#oldest] as number) < 1000) return false;
    this.#passed[this.#oldest] = nowMs;
    this.#oldest = (this.#oldest + 1) % this.#passed.length;
    return true;
  }

  /** Milliseconds until the next request may pass. */
  wait(nowMs: number): number {
    return Math.max(0, (this.#passed[this.#oldest] as number) + 1000 - nowMs);
  }
}

/** Measures the most requests that arrived in any second, including refused ones. */
export class PeakMeter {
  peak = 0;
  #times = new Float64Array(4096);
  #first = 0;
  #count = 0;

  /** Counts a request. @param nowMs in milliseconds, never less than before */
  add(nowMs: number): void {
    while (this.#count > 0 && nowMs - (this.#times[this.#first] as number) >= 1000) {
      this.#first = (this.#first + 1) % this.#times.length;
      this.#count -= 1;
    }
    if (this.#count === this.#times.length) this.#grow();
    this.#times[(this.#first + this.#count) % this.#times.length] = nowMs;
    this.#count += 1;
    if (this.#count > this.peak) this.peak = this.#count;
  }

  reset(): void {
    this.peak = 0;
    this.#count = 0;
  }

  #grow(): void {
    const larger = new Float64Array(this.#times.length * 2);
    larger.set(this.#times.subarray(this.#first));
    larger.set(this.#times.subarray(0, this.#first), this.#times.length - this.#first);
    this.#times = larger;
    this.#first = 0;
  }
}

/** Requests per second for each group of the API; 0 sets no limit. */
export type RateLimits = Readonly<Record<ApiGroup, number>>;

/** The published limits: 2000 for the Profile API (specification, section 8), 10 for the Management API, 500 for the Real-time API. */
export const publishedLimits: RateLimits = { profile: 2000, management: 10, realtime: 500 };

interface Counter {
  readonly window: SlidingWindow | undefined;
  readonly meter: PeakMeter;
}

/** For each group, a tenant and its sandboxes share one budget of requests (specification, section 8). */
export class FamilyLimits {
  #limits: RateLimits;
  #apart: ReadonlySet<ApiGroup> = new Set();
  readonly #tenants = new Map<string, Map<ApiGroup, Counter>>();
  readonly #budgets = new Map<string, Map<ApiGroup, Counter>>();

  constructor(limits: RateLimits) {
    this.#limits = limits;
  }

  /** @param apart groups in which each sandbox has its own budget */
  set(limits: Partial<RateLimits>, apart: readonly ApiGroup[]): RateLimits {
    this.#limits = { ...this.#limits, ...limits };
    this.#apart = new Set(apart);
    this.#tenants.clear();
    this.#budgets.clear();
    return this.#limits;
  }

  /** Counts a request. Returns 0 if it passes, otherwise the milliseconds until one may pass. */
  arrive(tenant: string, group: ApiGroup, nowMs: number): number {
    const { window, meter } = this.#counter(tenant, group);
    meter.add(nowMs);
    return window === undefined || window.pass(nowMs) ? 0 : window.wait(nowMs);
  }

  /** The most requests in any second, by budget and group. */
  peaks(): Record<string, Partial<Record<ApiGroup, number>>> {
    return Object.fromEntries(
      [...this.#budgets].map(([family, groups]) => [
        family,
        Object.fromEntries([...groups].map(([group, { meter }]) => [group, meter.peak])),
      ]),
    );
  }

  resetPeaks(): void {
    for (const groups of this.#budgets.values()) for (const { meter } of groups.values()) meter.reset();
  }

  /** The counters of a budget: of a tenant and its sandboxes, or of a sandbox alone. */
  #countersOf(budget: string): Map<ApiGroup, Counter> {
    const groups = this.#budgets.get(budget) ?? new Map<ApiGroup, Counter>();
    this.#budgets.set(budget, groups);
    return groups;
  }

  #counter(tenant: string, group: ApiGroup): Counter {
    let counters = this.#tenants.get(tenant);
    if (counters === undefined) {
      counters = new Map();
      this.#tenants.set(tenant, counters);
    }
    let counter = counters.get(group);
    if (counter === undefined) {
      const shared = this.#countersOf(this.#apart.has(group) ? tenant : tenantFamily(tenant));
      const limit = this.#limits[group];
      counter = shared.get(group) ?? {
        window: limit > 0 ? new SlidingWindow(limit) : undefined,
        meter: new PeakMeter(),
      };
      shared.set(group, counter);
      counters.set(group, counter);
    }
    return counter;
  }
}

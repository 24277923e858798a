import type { Clock } from '../core/clock.js';
import { apiNames } from '../core/deprecation.js';
import type { ApiGroup, ServiceOptions } from '../core/service-options.js';
import { accountOf, type Budget, type LimitShare, type RateLimiter } from '../rate-limit/budget.js';
import { ConcurrencyController } from '../rate-limit/concurrency.js';
import { Availability, type Contact } from './availability.js';
import type { OutageView } from './outage.js';

interface ApiGroupsOptions {
  readonly service: ServiceOptions;
  readonly retry: ServiceOptions['retry'];
  readonly clock: Clock;
  readonly random: () => number;
  readonly budget: Budget;
  /** Memory for all bodies, in bytes. */
  readonly bodyBytes: number;
  readonly notice: (text: string) => void;
}

/** The state that the requests of one API group share: their limit, how many are under way, and whether the service responds. */
export class ApiGroups {
  readonly #options: ApiGroupsOptions;
  readonly #limiters = new Map<ApiGroup, RateLimiter>();
  readonly #atOnce = new Map<ApiGroup, ConcurrencyController>();
  readonly #availability = new Map<ApiGroup, Availability>();
  readonly #contact: Contact = { made: false };

  constructor(options: ApiGroupsOptions) {
    this.#options = options;
  }

  limiter(group: ApiGroup): RateLimiter {
    const { budget, service } = this.#options;
    let limiter = this.#limiters.get(group);
    if (limiter === undefined) {
      limiter = budget.limiterFor(accountOf(service, group), service.rateLimits[group]);
      this.#limiters.set(group, limiter);
    }
    return limiter;
  }

  concurrency(group: ApiGroup): ConcurrencyController {
    let controller = this.#atOnce.get(group);
    if (controller === undefined) {
      const { service, bodyBytes, clock } = this.#options;
      const limit = () => this.limiter(group).effectiveLimit;
      const monotonicMs = () => clock.monotonic();
      controller = new ConcurrencyController({ limit, concurrency: service.concurrency, bodyBytes, now: monotonicMs });
      this.#atOnce.set(group, controller);
    }
    return controller;
  }

  availability(group: ApiGroup): Availability {
    let availability = this.#availability.get(group);
    if (availability === undefined) {
      const { retry, clock, random, notice } = this.#options;
      availability = new Availability({
        ...retry,
        name: apiNames[group],
        clock,
        random,
        contact: this.#contact,
        notice,
        onEnd: () => this.concurrency(group).restart(),
        onAsked: (ms) => this.limiter(group).pause(ms),
      });
      this.#availability.set(group, availability);
    }
    return availability;
  }

  /** The groups that do not respond at present. */
  outages(): OutageView[] {
    return [...this.#availability.values()].flatMap(({ outage }) => outage ?? []);
  }

  /** How the limit of a group is shared at present; undefined before the first request to it. */
  share(group: ApiGroup): LimitShare | undefined {
    const limiter = this.#limiters.get(group);
    if (limiter === undefined) return undefined;
    const part = Math.min(1, limiter.effectiveLimit / this.#options.service.rateLimits[group]);
    return { part, otherProcesses: limiter.otherProcesses ?? 0 };
  }

  close(): void {
    for (const availability of this.#availability.values()) availability.close();
  }
}

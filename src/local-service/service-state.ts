import type { DayShares } from './data/population.js';
import type { AttributeForm } from './data/segments.js';
import { TenantData } from './data/tenant-data.js';
import { faultSchema } from './faults/fault.js';
import { FaultInjector } from './faults/fault-injector.js';
import { ErrorResponses } from './http/error-responses.js';
import { KeyStore } from './keys/key-store.js';
import { TokenIssuer } from './keys/token-issuer.js';
import { FamilyLimits, publishedLimits } from './limits/family-limits.js';
import type { LocalServiceOptions } from './local-service-options.js';
import { ManagementTenants } from './management/management-tenants.js';
import type { EndForm } from './operations/listing.js';
import { PageBuffers } from './page-buffers.js';
import { PageTokens } from './page-token.js';
import { RealtimeTenants } from './realtime/realtime-tenants.js';
import { RequestStats } from './request-stats.js';
import { ServiceClock } from './service-clock.js';
import type { SavedState } from './state-file.js';

/** The whole state of the service. Operations and controls work on it. */
export class ServiceState {
  readonly seed: number;
  readonly profiles: number;
  /** In lower case. */
  readonly tenantHeader: string;
  /** In lower case. */
  readonly oauthTenantHeader: string;
  readonly attributes: AttributeForm;
  readonly maxPageSize: number;
  readonly endForm: EndForm;
  readonly clock: ServiceClock;
  readonly keys: KeyStore;
  readonly tokens: TokenIssuer;
  readonly limits: FamilyLimits;
  readonly pageTokens: PageTokens;
  readonly pageBuffers = new PageBuffers();
  readonly faults: FaultInjector;
  readonly stats = new RequestStats();
  readonly errors = new ErrorResponses();
  readonly realtime: RealtimeTenants;
  readonly management: ManagementTenants;
  readonly #tenants = new Map<string, TenantData>();
  #days: readonly DayShares[];

  constructor(options: LocalServiceOptions, saved?: SavedState) {
    this.seed = options.seed ?? 1;
    this.profiles = options.profiles ?? 100_000;
    this.tenantHeader = (options.tenantHeader ?? 'service-tenant').toLowerCase();
    this.oauthTenantHeader = (options.oauthTenantHeader ?? 'X-Service-Tenant').toLowerCase();
    this.attributes = options.attributes ?? 'text';
    this.maxPageSize = options.maxPageSize ?? 1000;
    this.endForm = options.endForm ?? 'absent';
    this.clock = new ServiceClock(options.clock, saved?.timeOffsetMs);
    this.keys = new KeyStore(this.seed, saved?.keys);
    this.tokens = new TokenIssuer(this.keys, this.clock, this.seed);
    this.limits = new FamilyLimits({ ...publishedLimits, ...options.rateLimits });
    this.pageTokens = new PageTokens(this.seed);
    this.faults = new FaultInjector(this.seed);
    for (const behaviour of options.behaviours ?? []) this.faults.set(faultSchema.parse(behaviour));
    this.#days = saved?.days ?? [];
    const { seed, profiles } = this;
    const nowMs = this.clock.now();
    this.realtime = new RealtimeTenants({ seed, profiles, days: this.#days, now: nowMs, saved: saved?.realtime });
    this.management = new ManagementTenants(seed, nowMs, saved?.management);
  }

  /** The days that have changed the data. */
  get days(): readonly DayShares[] {
    return this.#days;
  }

  /** The indexes of a tenant that has a key. */
  data(tenant: string): TenantData {
    let data = this.#tenants.get(tenant);
    if (data === undefined) {
      data = new TenantData(tenant, {
        seed: this.seed,
        profiles: this.profiles,
        form: this.attributes,
        days: this.#days,
      });
      this.#tenants.set(tenant, data);
    }
    return data;
  }

  /** Lets days pass for the data of every tenant; returns the change of this one. */
  change(days: readonly DayShares[], tenant: string) {
    const data = this.data(tenant);
    this.#days = [...this.#days, ...days];
    for (const other of this.#tenants.values()) if (other !== data) other.moveTo(this.#days);
    const realtime = this.realtime.moveTo(this.#days, tenant, this.clock.now());
    const management = this.management.pass(days.length, tenant, this.keys.tenants, this.clock.now());
    return { ...data.moveTo(this.#days), realtime, management };
  }

  /** The state that a restart must keep. */
  saved(): SavedState {
    return {
      version: 1,
      seed: this.seed,
      profiles: this.profiles,
      timeOffsetMs: this.clock.offsetMs,
      days: [...this.#days],
      keys: this.keys.keys.map(({ stored }) => stored),
      realtime: this.realtime.saved,
      management: this.management.saved,
    };
  }
}

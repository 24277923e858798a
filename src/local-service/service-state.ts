import type { Clock } from '../core/clock.js';
import { mix } from './data/hash.js';
import type { DayShares } from './data/population.js';
import type { AttributeForm } from './data/segments.js';
import { type NetChange, TenantData } from './data/tenant-data.js';
import { type FaultInput, faultSchema } from './faults/fault.js';
import { FaultInjector } from './faults/fault-injector.js';
import { jsonResponse, ServiceError, type ServiceResponse } from './http/response.js';
import { KeyStore } from './keys/key-store.js';
import { TokenIssuer } from './keys/token-issuer.js';
import { FamilyLimits, publishedLimits, type RateLimits } from './limits/family-limits.js';
import { type ManagementChange, ManagementTenants } from './management/management-tenants.js';
import type { EndForm } from './operations/listing.js';
import { PageTokens } from './page-token.js';
import { RealtimeTenants } from './realtime/realtime-tenants.js';
import type { RealtimeChange } from './realtime/tenant-realtime.js';
import { ServiceClock } from './service-clock.js';
import type { SavedState } from './state-file.js';

/** How to start the local service. Every option has a default. */
export interface LocalServiceOptions {
  /** 0 takes any free port. Default 0. */
  readonly port?: number | undefined;
  /** Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Tokens are issued at this port, and not at the other; 0 takes any free one. Default: at the port of the service. */
  readonly oauthPort?: number | undefined;
  /** Key and certificate for HTTPS. Default: plain HTTP. */
  readonly tls?: { readonly key: string; readonly cert: string } | undefined;
  /** Profiles of the index `loyalty_members`. Default 100,000. */
  readonly profiles?: number | undefined;
  /** Whether attribute values are text, as published, or typed JSON. Default `text`. */
  readonly attributes?: AttributeForm | undefined;
  /** The same seed gives the same profiles, ids and credentials. Default 1. */
  readonly seed?: number | undefined;
  /** Keeps keys, time and changes over restarts. Default: nothing is kept. */
  readonly stateFile?: string | undefined;
  /** How long every response waits before it is sent. Default 0. */
  readonly latencyMs?: number | undefined;
  /** Name of the tenant header. Default `service-tenant`. */
  readonly tenantHeader?: string | undefined;
  /** Name of the tenant header of the token endpoint. Default `X-Service-Tenant`. */
  readonly oauthTenantHeader?: string | undefined;
  /** The token that requests to `/_control/` must send. Default: a new one for each start. */
  readonly controlToken?: string | undefined;
  readonly clock?: Clock | undefined;
  /** Requests per second of a tenant and its sandboxes, for each group; 0 sets no limit. Default: as published. */
  readonly rateLimits?: Partial<RateLimits> | undefined;
  /** A larger `limit` is refused. Default 1000. */
  readonly maxPageSize?: number | undefined;
  /** The form of `next_token` on the last page. Default `absent`. */
  readonly endForm?: EndForm | undefined;
  /** Faults that are set from the start. Default: none. */
  readonly behaviours?: readonly FaultInput[] | undefined;
}

/** Counts the requests since the service's start or the last reset. */
class RequestStats {
  requests = 0;
  /** Responses with status 429. */
  throttled = 0;
  /** Pages of lists that were returned. */
  pages = 0;
  readonly #operations = new Map<string, number>();
  readonly #statuses = new Map<number, number>();

  arrived(operation: string): void {
    this.requests += 1;
    this.#operations.set(operation, (this.#operations.get(operation) ?? 0) + 1);
  }

  sent(status: number): void {
    if (status === 429) this.throttled += 1;
    this.#statuses.set(status, (this.#statuses.get(status) ?? 0) + 1);
  }

  reset(): void {
    this.requests = 0;
    this.throttled = 0;
    this.pages = 0;
    this.#operations.clear();
    this.#statuses.clear();
  }

  report() {
    return {
      requests: this.requests,
      throttled: this.throttled,
      pages: this.pages,
      operations: Object.fromEntries(this.#operations),
      statuses: Object.fromEntries(this.#statuses),
    };
  }
}

const smallest = 1 << 12;
const maxIdleBytes = 1 << 25;

/** Reuses the buffers of pages: a new one of 85 kB for each page would keep the garbage collector busy. */
class PageBuffers {
  readonly #idle = new Map<number, Buffer[]>();
  #idleBytes = 0;

  /** A buffer of at least this size. */
  take(size: number): Buffer {
    let rounded = smallest;
    while (rounded < size) rounded *= 2;
    const buffer = this.#idle.get(rounded)?.pop();
    if (buffer === undefined) return Buffer.allocUnsafeSlow(rounded);
    this.#idleBytes -= rounded;
    return buffer;
  }

  /** Takes a buffer back. The caller must not use it afterwards. */
  give(buffer: Buffer): void {
    if (this.#idleBytes + buffer.length > maxIdleBytes) return;
    const idle = this.#idle.get(buffer.length);
    if (idle === undefined) this.#idle.set(buffer.length, [buffer]);
    else idle.push(buffer);
    this.#idleBytes += buffer.length;
  }
}

/** Makes error bodies (specification, section 2.6), each with its own ids. */
class ErrorBodies {
  #count = 0;

  /** @param hasIds whether the body has the ids, which are optional */
  response(thrown: unknown, hasIds = true): ServiceResponse {
    const error = thrown instanceof ServiceError ? thrown : new ServiceError(500, `internal error: ${String(thrown)}`);
    return {
      ...jsonResponse({ status: error.status, message: error.message, ...(hasIds ? this.#ids() : {}) }, error.status),
      headers: error.headers,
    };
  }

  #ids(): Record<string, unknown> {
    this.#count += 1;
    const id = this.#count.toString(16).padStart(8, '0');
    const trace = [1, 2, 3, 4].map((part) =>
      mix(this.#count * 4 + part)
        .toString(16)
        .padStart(8, '0'),
    );
    return { request_id: `req-${id}`, trace_id: trace.join('') };
  }
}

/** The net change of a tenant's data over some days. */
interface DataChange {
  readonly indexes: Record<string, NetChange>;
  readonly realtime: RealtimeChange;
  readonly management: ManagementChange;
}

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
  readonly errors = new ErrorBodies();
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
    const now = this.clock.now();
    this.realtime = new RealtimeTenants({ seed, profiles, days: this.#days, now, saved: saved?.realtime });
    this.management = new ManagementTenants(seed, now, saved?.management);
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
  change(days: readonly DayShares[], tenant: string): DataChange {
    const data = this.data(tenant);
    this.#days = [...this.#days, ...days];
    for (const other of this.#tenants.values()) if (other !== data) other.moveTo(this.#days);
    const realtime = this.realtime.moveTo(this.#days, tenant, this.clock.now());
    const management = this.management.pass(days.length, tenant, this.keys.tenants, this.clock.now());
    return { indexes: data.moveTo(this.#days), realtime, management };
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

import type { Clock } from '../core/clock.js';
import type { AttributeForm } from './data/segments.js';
import type { FaultInput } from './faults/fault.js';
import type { RateLimits } from './limits/family-limits.js';
import type { EndForm } from './operations/listing.js';

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

import type { Clock } from '../core/clock.js';
import type { RateLimits } from './limits/family-limits.js';
import type { EndForm } from './operations/page-envelope.js';

/** How the local service is to be started; everything can be left out. */
export interface LocalServiceOptions {
  /** 0 takes any free one. Default 0. */
  readonly port?: number | undefined;
  /** Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Serves HTTPS. */
  readonly tls?: { readonly key: string; readonly cert: string } | undefined;
  /** Profiles of the index `loyalty_members`. Default 100,000. */
  readonly profiles?: number | undefined;
  /** The same seed gives the same profiles, ids and credentials. Default 1. */
  readonly seed?: number | undefined;
  /** Keeps keys, time and changes over restarts. */
  readonly stateFile?: string | undefined;
  /** What every answer waits before it is sent. Default 0. */
  readonly latencyMs?: number | undefined;
  /** Default `service-tenant`. */
  readonly tenantHeader?: string | undefined;
  /** Default `X-Service-Tenant`. */
  readonly oauthTenantHeader?: string | undefined;
  readonly clock?: Clock | undefined;
  /** Requests a second of a tenant and its sandboxes, for each group; 0 is no limit. Default: as published. */
  readonly rateLimits?: Partial<RateLimits> | undefined;
  /** A larger `limit` is refused. Default 1000. */
  readonly maxPageSize?: number | undefined;
  /** How the last page tells that it is the last. Default `absent`. */
  readonly endForm?: EndForm | undefined;
  /** Compresses answers for those who accept it. Default false. */
  readonly gzip?: boolean | undefined;
}

import type { Secret } from './secret.js';

/** How the client authenticates (specification, sections 4.9 and 5). */
export type AuthOptions =
  | { readonly type: 'token'; readonly token: Secret }
  /** The file is read again whenever it has changed, and once on a 401. */
  | { readonly type: 'token_file'; readonly path: string }
  | { readonly type: 'client_credentials'; readonly clientId: string; readonly clientSecret: Secret };

/** The groups of the API; each has its version and its request budget (specification, section 1). */
export type ApiGroup = 'profile' | 'management' | 'realtime';

/** The service's address, credentials and limits: the `service:` part of a configuration. */
export interface ServiceOptions {
  /** Without prefix and without a trailing slash. */
  readonly baseUrl: string;
  readonly tenantId: string;
  readonly tenantHeader: string;
  readonly oauthTenantHeader: string;
  /** The token endpoint; undefined: its place below `baseUrl`. */
  readonly oauthTokenUrl?: string | undefined;
  readonly auth: AuthOptions;
  readonly apiVersions: { readonly profile: string; readonly management: string; readonly campaignDrafts: string };
  /** Requests a second, for each group. */
  readonly rateLimits: Readonly<Record<ApiGroup, number>>;
  /** Records to ask for in one page, unless the stream says otherwise. */
  readonly pageSize: number;
  readonly timeoutsMs: {
    readonly connect: number;
    readonly firstByte: number;
    readonly body: number;
    readonly total: number;
  };
  readonly retry: {
    /** How long the service may be away before a request fails. */
    readonly patienceMs: number;
    /** The longest pause between two attempts. */
    readonly maxDelayMs: number;
  };
  /** The most requests under way at once; undefined: latency and limits decide alone. */
  readonly concurrency?: number | undefined;
}

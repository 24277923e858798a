import type { ApiGroup, ServiceOptions } from '../core/service-options.js';

/** The requests that a service counts together: of a tenant and its sandboxes, to one API group (specification, section 8). */
export interface Account {
  /** In lower case, without a trailing slash. */
  readonly baseUrl: string;
  /** The tenant id without the suffix of a sandbox. */
  readonly family: string;
  readonly group: ApiGroup;
}

/** A tenant and its sandboxes share one account: `acme-sb-2` and `acme-sb` belong to `acme`. */
export function tenantFamily(tenantId: string): string {
  return tenantId.replace(/-sb(-\d+)?$/, '');
}

/** The account to which a service counts a request. */
export function accountOf(
  { baseUrl, tenantId }: Pick<ServiceOptions, 'baseUrl' | 'tenantId'>,
  group: ApiGroup,
): Account {
  return { baseUrl: baseUrl.toLowerCase(), family: tenantFamily(tenantId), group };
}

/** The account as text: the same for the same account. */
export function accountKey({ baseUrl, family, group }: Account): string {
  return JSON.stringify([baseUrl, family, group]);
}

/**
 * The right to send one request. Call exactly one of its methods; later calls do nothing. Until that call the permit counts
 * against the limit of this process.
 */
export interface Permit {
  /**
   * Whether the permit may no longer be used: this process was suspended, so others may have its part. Read it just before the
   * request is written, and cancel a lapsed permit. A budget of one process needs no such member.
   */
  readonly isLapsed?: boolean;
  /** The response has begun: the permit is free again a second from now. */
  answered(): void;
  /** The request was sent, or may have been, and no response arrived: the permit is free again a second from now. */
  failed(): void;
  /** The request certainly was not sent: the permit is free at once. */
  cancelled(): void;
}

/** The permits of one account. Any number of callers may use it at once. */
export interface RateLimiter {
  /**
   * Requests a second that may be sent at present: the limit, or less after a 429, or this process's part of a limit that
   * others share.
   */
  readonly effectiveLimit: number;
  /** Other processes that share the limit at present, if the budget knows of any. */
  readonly otherProcesses?: number;
  /**
   * Waits for a permit, first come, first served. It also waits while the budget's database is away.
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts
   */
  acquire(signal: AbortSignal): Promise<Permit>;
  /** The response was a 429: many of them lower the limit for a while. No permit is given for `retryAfterMs`. */
  throttled(retryAfterMs?: number): void;
  /** The service asked to wait: no permit is given for `ms`. */
  pause(ms: number): void;
}

/** The part of a limit that a process has at present. */
export interface LimitShare {
  /** From 0 to 1 of the configured limit. */
  readonly part: number;
  /** Processes that have the rest. */
  readonly otherProcesses: number;
}

/**
 * Hands out the permits of any number of accounts. All engines that send under one limit get the same budget: those of one
 * process, or of several processes and machines if an implementation spans them. The program that opens the engines creates
 * the budget. The budget outlives them, and does not keep the process alive while no caller waits for a permit.
 */
export interface Budget {
  /**
   * The limiter of an account; every caller gets the same one.
   * @param limit requests a second, at least 1. If callers pass different limits, the smallest applies to all of them
   *   while the budget is open
   */
  limiterFor(account: Account, limit: number): RateLimiter;
  /** Returns this process's part of the limits. Call it once, when no caller waits any more. */
  close(): Promise<void>;
}

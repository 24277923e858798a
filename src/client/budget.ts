import type { ApiGroup, ServiceOptions } from '../core/service-options.js';

/** What a service counts together: the requests of a tenant and its sandboxes to one group of its API (specification, section 8). */
export interface Account {
  /** In lower case, without a trailing slash. */
  readonly baseUrl: string;
  /** The tenant id without the suffix of a sandbox. */
  readonly family: string;
  readonly group: ApiGroup;
}

/** A tenant and its sandboxes share one account: `acme-sb-2` belongs to `acme`. */
export function tenantFamily(tenantId: string): string {
  return tenantId.replace(/-sb-\d+$/, '');
}

/** The account that a service counts a request to. */
export function accountOf(
  { baseUrl, tenantId }: Pick<ServiceOptions, 'baseUrl' | 'tenantId'>,
  group: ApiGroup,
): Account {
  return { baseUrl: baseUrl.toLowerCase(), family: tenantFamily(tenantId), group };
}

/**
 * The right to send one request. It lasts until one of its methods is called, also where it came from a lease that has ended
 * by then: until then it counts against the limit. Exactly one method is to be called; later calls do nothing.
 */
export interface Permit {
  /** The answer has begun: its second runs from now. */
  answered(): void;
  /** The request was sent, or may have been, and no answer came: its second runs from now. */
  failed(): void;
  /** The request surely was not sent: the permit is free at once. */
  cancelled(): void;
}

/** The permits of one account. Any number of callers may use it at once. */
export interface Allowance {
  /**
   * Requests a second that are given out at present: the limit, or less after a 429, or the part of it that is left where
   * others share it.
   */
  readonly effectiveLimit: number;
  /**
   * Waits for a permit, first come, first served. It waits too while the budget cannot be asked (a database that is away).
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts
   */
  acquire(signal: AbortSignal): Promise<Permit>;
  /** The service answered 429: the allowance shrinks for a while, and nobody gets a permit for `retryAfterMs`. */
  throttled(retryAfterMs?: number): void;
  /** The service asked to be left alone: nobody gets a permit for `ms`. */
  pause(ms: number): void;
}

/**
 * Hands out the permits of any number of accounts. All that send under one limit are given the same budget: the engines of a
 * process, or, where an implementation spans them, processes and machines. It is made by the program that opens the engines,
 * outlives them, and keeps no process alive while nobody waits for a permit.
 */
export interface Budget {
  /**
   * The allowance of an account, the same one for all who ask.
   * @param limit requests a second, at least 1. Where two users give different limits, the smaller one holds for both, for as
   *   long as the budget is open
   */
  allowance(account: Account, limit: number): Allowance;
  /** Gives back what this process has of the limits. To be called once, when nobody waits any more. */
  close(): Promise<void>;
}

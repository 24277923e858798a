import type { Permit, RateLimiter } from '../rate-limit/budget.js';
import type { ConcurrencyController } from '../rate-limit/concurrency.js';
import type { Availability } from './availability.js';
import type { Operation, RequestCounts } from './request.js';
import type { ServiceResponse } from './response-reader.js';
import type { RequestAttempts } from './retry.js';

export interface SendOptions {
  readonly signal: AbortSignal;
  readonly meter: RequestCounts;
  /** The sender can do without the result: a status such as 504 is trusted after few attempts. */
  readonly isOptional?: boolean;
  /** Statuses that may be about this request alone, such as one for too large a page: they too are trusted after few attempts. */
  readonly ownFailures?: ReadonlySet<number> | undefined;
  /** Of an earlier request for the same records: whether it failed alone, and since when, counts for this one too. */
  readonly attempts?: RequestAttempts;
}

/** One call of `ServiceClient.send`, over all its attempts. */
export interface PendingRequest<T> extends SendOptions {
  readonly operation: Operation;
  readonly take: (response: ServiceResponse) => T;
  target: string;
  readonly body: string | null;
  readonly version: string | null;
  readonly limiter: RateLimiter;
  /** Whether a redirect to the other spelling of the path was followed; that happens once a call. */
  respelled: boolean;
  readonly attempts: RequestAttempts;
  readonly availability: Availability;
  readonly concurrency: ConcurrencyController;
  /** Tokens that were refused in a row. */
  refusedTokens: number;
}

/** Everything that one attempt sends. */
export interface SendPermission {
  readonly permit: Permit;
  readonly token: string;
  /** Ends what counts against the requests under way. */
  readonly leave: () => void;
}

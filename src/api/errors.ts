import type { ErrorCode } from '../core/error-codes.js';
import { CdsyncError, type ErrorDetails } from '../core/errors.js';

interface ServiceErrorDetails extends ErrorDetails {
  readonly status?: number | undefined;
  readonly serviceMessage?: string | undefined;
  readonly traceId?: string | undefined;
  /** It kept failing while other requests succeeded. */
  readonly isSingle?: boolean;
}

/**
 * A request that the service refused, or that did not get through to it (specification, sections 2.6 and 7).
 *
 * Codes: `unauthorized`, `forbidden`, `not_found`, `bad_request`, `method_not_allowed`, `conflict`, `redirected`,
 * `too_many_requests`, `service_unavailable`, `unreachable`, `tls_error`, `timeout`, `connection_lost`,
 * `malformed_response`, `response_too_large`, `unsendable_request`, `oauth_failed`.
 */
export class ServiceError extends CdsyncError {
  declare readonly code: ErrorCode;
  /** The status of the answer; undefined if none came. */
  readonly status: number | undefined;
  /** The service's own message, shortened, without the client's secrets and without the request's values. */
  readonly serviceMessage: string | undefined;
  readonly traceId: string | undefined;
  /** It kept failing while other requests succeeded. */
  readonly isSingle: boolean;

  constructor(message: string, details: ServiceErrorDetails) {
    super(message, details);
    this.name = 'ServiceError';
    this.status = details.status;
    this.serviceMessage = details.serviceMessage;
    this.traceId = details.traceId;
    this.isSingle = details.isSingle ?? false;
  }
}

/** A `decode` throws it if the body is not what the operation should answer; the client then asks again. */
export class MalformedBodyError extends CdsyncError {
  /** @param reason what is wrong with the body, without any of its contents: `it is not JSON` */
  constructor(reason: string, cause?: unknown) {
    super(reason, { code: 'malformed_response', cause });
    this.name = 'MalformedBodyError';
  }
}

export { interrupted } from '../core/errors.js';

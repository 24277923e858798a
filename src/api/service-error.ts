import { STATUS_CODES } from 'node:http';
import { type ErrorCode, type ErrorKind, errorType } from '../core/error-codes.js';
import { CdsyncError, type ErrorDetails, liftLimit } from '../core/errors.js';
import { formatBytes } from '../core/quantities.js';
import type { ApiGroup, AuthOptions } from '../core/service-options.js';
import { readErrorBody } from './error-body.js';
import { maxBodyBytes, maxHeaderBytes, maxSentHeaderBytes } from './response-body.js';
import type { ServiceResponse } from './response-reader.js';
import type { TransportError, TransportErrorReason } from './transport-error.js';

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
  /** The status of the response; undefined without a response. */
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

/** A `decode` throws it if the body is not of the operation's shape; the client then asks again. */
export class MalformedBodyError extends CdsyncError {
  /** @param reason the fault of the body, without any of its contents: `it is not JSON` */
  constructor(reason: string, cause?: unknown) {
    super(reason, { code: 'malformed_response', cause });
    this.name = 'MalformedBodyError';
  }
}

interface FailureContext {
  /** What messages call the operation. */
  readonly label: string;
  /** `host:port` of the base URL. */
  readonly host: string;
  /** How often it was tried. */
  readonly attempts: number;
  /** The option that has the address. Default: `base_url`. */
  readonly option?: AddressOption | undefined;
}

/** The options that have an address of the service. */
export type AddressOption = 'base_url' | 'oauth_token_url';

interface Wording {
  readonly code: ErrorCode;
  readonly says: (host: string, failure: TransportError) => string;
  readonly hint: (host: string, option: AddressOption, failure: TransportError) => string | undefined;
}

const again = 'run again: everything read so far is kept';
const whichAddress = (host: string, option: AddressOption) =>
  /^(localhost|127\.|\[::1\])/.test(host)
    ? `is \`${option}\` right? For the local service, start \`cdsync serve\` first`
    : `is \`${option}\` right, and does this machine reach the service?`;

const wordings: Record<Exclude<TransportErrorReason, 'closed'>, Wording> = {
  dns: {
    code: 'unreachable',
    says: (host) => `could not reach ${host}: there is no such host`,
    hint: whichAddress,
  },
  refused: {
    code: 'unreachable',
    says: (host) => `could not reach ${host}: no connection`,
    hint: whichAddress,
  },
  connect_timeout: {
    code: 'timeout',
    says: (host) => `got no connection to ${host} in time`,
    hint: (_, option) =>
      `is \`${option}\` right, and does a firewall let this machine through? \`timeouts_ms.connect\` sets the limit`,
  },
  tls: {
    code: 'tls_error',
    says: (host) => `got no trusted connection to ${host}`,
    hint: (_, option) =>
      `for a certificate of a private authority, set NODE_EXTRA_CA_CERTS to its file; otherwise check the host and the scheme of \`${option}\``,
  },
  proxy: {
    code: 'proxy_failed',
    says: (_, { cause }) => `got no connection: ${(cause as Error).message}`,
    hint: () => 'are HTTP_PROXY and HTTPS_PROXY right? NO_PROXY lists hosts that need no proxy',
  },
  proxy_login: {
    code: 'proxy_login',
    says: (_, { cause }) => `got no connection: ${(cause as Error).message}`,
    hint: () => 'write the login into the variable: HTTPS_PROXY=http://user:password@host:port',
  },
  first_byte_timeout: {
    code: 'timeout',
    says: () => 'got no answer in time',
    hint: () => 'try a smaller `page_size`, or raise `timeouts_ms.first_byte`',
  },
  body_timeout: {
    code: 'timeout',
    says: () => 'got an answer that stalled in the middle',
    hint: () => 'try a smaller `page_size`, or raise `timeouts_ms.body`',
  },
  total_timeout: {
    code: 'timeout',
    says: () => 'got an answer that took longer than `timeouts_ms.total`',
    hint: () =>
      'the service, or something between it and cdsync, sends too slowly: try a smaller `page_size`, or raise `timeouts_ms.total`',
  },
  files: {
    code: 'too_many_files',
    says: () => 'got no connection: too many files are open',
    hint: () => 'raise the limit (ulimit -n), or lower `concurrency`, then run again',
  },
  memory: {
    code: 'memory_refused',
    says: () => 'got no connection: the system refuses more memory',
    hint: () => liftLimit,
  },
  lost: {
    code: 'connection_lost',
    says: () => 'lost its connection before the answer',
    hint: () => again,
  },
  torn: { code: 'connection_lost', says: () => 'got an answer that broke off', hint: () => again },
  encoded: {
    code: 'malformed_response',
    says: (_, { cause }) => `got an answer that cannot be read: it is ${(cause as Error).message}`,
    hint: () => 'cdsync asks for gzip or nothing: does a proxy between it and the service compress in another way?',
  },
  too_large: {
    code: 'response_too_large',
    says: (_, { maxBytes }) => `got an answer of more than ${formatBytes(maxBytes)}`,
    hint: (_, __, { maxBytes }) =>
      maxBytes < maxBodyBytes
        ? 'ask for fewer records (`page_size`), or raise `resources.memory_mb`: one answer may have a quarter of it'
        : 'ask for fewer records (`page_size`)',
  },
  large_headers: {
    code: 'response_too_large',
    says: () => `got an answer with headers of more than ${formatBytes(maxHeaderBytes)}`,
    hint: (_, option) =>
      `what answers at \`${option}\`? The service sends far smaller ones; a proxy between may add to them`,
  },
  large_request: {
    code: 'unsendable_request',
    says: () => `has headers of more than ${formatBytes(maxSentHeaderBytes)}, which no server takes`,
    hint: () => 'is the token of `auth` the one that was issued? Tokens have a few kB',
  },
  http2: {
    code: 'unreachable',
    says: (host) => `could not talk to ${host}: it speaks HTTP/2 alone`,
    hint: (_, option) => `let the server or the proxy behind \`${option}\` offer HTTP/1.1, too`,
  },
  unsendable: {
    code: 'unsendable_request',
    says: () => 'cannot be sent over HTTP',
    hint: () => 'check `tenant_id`, the header names and the versions for characters that HTTP does not allow',
  },
};

/**
 * Whether a failed exchange may succeed if it is tried again. A connection that is not trusted may be one that was cut; files are
 * closed again.
 */
export function isPassing(reason: Exclude<TransportErrorReason, 'closed'>): boolean {
  return reason === 'tls' || reason === 'files' || errorType(wordings[reason].code).kind === 'retryable';
}

/** Whether no connection was made: before the first success, the address may be wrong, so cdsync waits less for one. */
export function isUnconnected(reason: TransportErrorReason): boolean {
  return ['dns', 'refused', 'connect_timeout', 'tls', 'http2', 'proxy', 'files'].includes(reason);
}

/** The error that users see for an exchange without a response. */
export function failureError(
  failure: TransportError,
  reason: Exclude<TransportErrorReason, 'closed'>,
  { label, host, attempts, option = 'base_url' }: FailureContext,
): ServiceError {
  const { code, says, hint } = wordings[reason];
  const isProxy = reason === 'proxy' || reason === 'proxy_login';
  const cause = failure.systemCode === undefined || isProxy ? '' : ` (${failure.systemCode})`;
  const tries = attempts > 1 ? `, tried ${attempts} times` : '';
  return new ServiceError(`${label} ${says(host, failure)}${cause}${tries}`, {
    code,
    hint: hint(host, option, failure),
    cause: failure.cause,
  });
}

interface StatusContext {
  readonly label: string;
  /** Left out if the operation belongs to no API group. */
  readonly group?: ApiGroup;
  readonly attempts: number;
  readonly auth: AuthOptions['type'];
  readonly permissions: readonly string[] | undefined;
  /** {@link Operation.permissionInstead} */
  readonly permissionInstead?: string | undefined;
  /** Takes secrets and personal values out of the service's message. */
  readonly redact: (text: string) => string;
  /** Instead of the usual hint. */
  readonly hint?: string | undefined;
}

/** Whether the same request may get another response later; true for 429. */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && status !== 501 && status !== 505);
}

/** The error that users see for a response that is not a success. */
export function statusError(response: ServiceResponse, context: StatusContext): ServiceError {
  const { status } = response;
  const said = readErrorBody(response, context.redact);
  const ids = [
    said.requestId === undefined ? '' : `request id ${said.requestId}`,
    said.traceId === undefined ? '' : `trace id ${said.traceId}`,
  ].filter((id) => id !== '');
  const message = [
    `${context.label} ${status >= 500 ? 'failed with' : 'was refused with'} ${status}`,
    context.attempts > 1 ? `, tried ${context.attempts} times` : '',
    `: ${said.message ?? STATUS_CODES[status] ?? 'an unknown status'}`,
    ids.length === 0 ? '' : ` (${ids.join(', ')})`,
  ].join('');
  const { code, kind, hint } = classify(status, said.message ?? '', context);
  return new ServiceError(message, {
    code,
    kind,
    hint: context.hint ?? hint,
    status,
    serviceMessage: said.message,
    requestId: said.requestId,
    traceId: said.traceId,
  });
}

/** The error for a redirect. cdsync never follows one: that would send the token to another host. */
export function redirectError(
  { status, headers }: ServiceResponse,
  label: string,
  option: AddressOption = 'base_url',
): ServiceError {
  const { location } = headers;
  const target = typeof location === 'string' && URL.canParse(location) ? new URL(location) : undefined;
  return new ServiceError(
    `${label} was answered with ${status === 304 ? 'Not Modified' : 'a redirect'} (${status})${target ? ` to ${target.host}` : ''}`,
    {
      code: 'redirected',
      status,
      hint:
        target === undefined
          ? status === 304
            ? 'cdsync sends no conditional request: a cache between it and the service answers in its place; take it out of the way'
            : `is \`${option}\` right?${option === 'base_url' ? ' It must not end in /api or /prof' : ''}`
          : `set \`${option}\` to ${addressOf(target, option)} if that is the service: cdsync sends credentials and tokens to no other address`,
    },
  );
}

/** What of a redirect's target the option would hold. */
function addressOf({ origin, pathname }: URL, option: AddressOption): string {
  return option === 'base_url' ? origin : origin + pathname;
}

interface Classified {
  readonly code: ErrorCode;
  readonly kind?: ErrorKind;
  readonly hint?: string | undefined;
}

function classify(status: number, said: string, context: StatusContext): Classified {
  const versionHint = /version/i.test(said)
    ? 'check `api_versions`: the service seems to refuse the one sent'
    : undefined;
  if (status === 401) return { code: 'unauthorized', hint: versionHint ?? tokenHints[context.auth] };
  if (status === 403) return { code: 'forbidden', hint: permissionHint(context) };
  if (status === 404) {
    const isUnbuilt = /\bbuild\b|not (been )?(generated|built)/i.test(said);
    return {
      code: 'not_found',
      hint: context.group === 'realtime' ? realtimeHint : isUnbuilt ? unbuiltHint : undefined,
    };
  }
  if (status === 405) return { code: 'method_not_allowed', hint: versionHint };
  if (status === 409) return { code: 'conflict' };
  if (status === 429) {
    return {
      code: 'too_many_requests',
      hint: 'something else uses up the limit of the tenant: lower `rate_limits`, or run at another time',
    };
  }
  if (status === 408) return { code: 'timeout' };
  if (status >= 500) {
    return {
      code: 'service_unavailable',
      kind: isRetryableStatus(status) ? 'retryable' : 'fatal',
      hint: 'the service has trouble; run again later: everything read so far is kept',
    };
  }
  return { code: 'bad_request', hint: versionHint };
}

const tokenHints: Record<AuthOptions['type'], string> = {
  token:
    'the token is not valid for this tenant: it has expired, was revoked or was rotated; issue another for an API key of `tenant_id`',
  token_file:
    'the token in the file is not valid for this tenant: put a newly issued one there, for an API key of `tenant_id`',
  client_credentials: 'the service refuses the token that it issued: check that the credentials belong to `tenant_id`',
};

/** Published notes, Profile API: an index has no profiles before the workflow that generates it has run. */
const unbuiltHint = 'the index is not generated yet: run after the workflow that generates it (`before` can start it)';

/** Specification, section 1: the Real-time API does not exist for a tenant until the operator has enabled it. */
const realtimeHint =
  'is the id right? If so, real-time features may not be enabled for this tenant: the operator of the service enables them';

function permissionHint({ permissions = [], permissionInstead }: StatusContext): string {
  const all = permissions.length === 0 ? 'it' : permissions.join(' and ');
  const needed = permissionInstead === undefined ? all : `${all} (or ${permissionInstead})`;
  return `give the API key a policy that allows ${needed}; a sandbox has its own keys, which are not copied from production`;
}

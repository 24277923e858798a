import { type ErrorCode, errorType } from '../core/error-codes.js';
import { formatBytes } from '../core/quantities.js';
import { maxBodyBytes } from './body-memory.js';
import { ServiceError } from './errors.js';
import type { TransportError, TransportErrorReason } from './transport-error.js';

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
  lost: {
    code: 'connection_lost',
    says: () => 'lost its connection before the answer',
    hint: () => again,
  },
  torn: { code: 'connection_lost', says: () => 'got an answer that broke off', hint: () => again },
  too_large: {
    code: 'response_too_large',
    says: (_, { mostBytes }) => `got an answer of more than ${formatBytes(mostBytes)}`,
    hint: (_, __, { mostBytes }) =>
      mostBytes < maxBodyBytes
        ? 'ask for fewer records (`page_size`), or raise `resources.memory_mb`: one answer may have a quarter of it'
        : 'ask for fewer records (`page_size`)',
  },
  unsendable: {
    code: 'unsendable_request',
    says: () => 'cannot be sent over HTTP',
    hint: () => 'check `tenant_id`, the header names and the versions for characters that HTTP does not allow',
  },
};

/** Whether a failed exchange may succeed if it is tried again. A connection that is not trusted may be one that was cut. */
export function isPassing(reason: Exclude<TransportErrorReason, 'closed'>): boolean {
  return reason === 'tls' || errorType(wordings[reason].code).kind === 'retryable';
}

/** Whether no connection came about, so that the address may be wrong. */
export function isUnconnected(reason: TransportErrorReason): boolean {
  return ['dns', 'refused', 'connect_timeout', 'tls', 'proxy'].includes(reason);
}

/** The error that users see for an exchange that brought no answer. */
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

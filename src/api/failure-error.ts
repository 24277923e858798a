import type { ErrorKind } from '../core/errors.js';
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
  readonly code: string;
  readonly kind: ErrorKind;
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
    kind: 'retryable',
    says: (host) => `could not reach ${host}: there is no such host`,
    hint: whichAddress,
  },
  refused: {
    code: 'unreachable',
    kind: 'retryable',
    says: (host) => `could not reach ${host}: no connection`,
    hint: whichAddress,
  },
  connect_timeout: {
    code: 'timeout',
    kind: 'retryable',
    says: (host) => `got no connection to ${host} in time`,
    hint: (_, option) =>
      `is \`${option}\` right, and does a firewall let this machine through? \`timeouts_ms.connect\` sets the limit`,
  },
  tls: {
    code: 'tls_error',
    kind: 'fatal',
    says: (host) => `got no trusted connection to ${host}`,
    hint: (_, option) =>
      `for a certificate of a private authority, set NODE_EXTRA_CA_CERTS to its file; otherwise check the host and the scheme of \`${option}\``,
  },
  proxy: {
    code: 'proxy_failed',
    kind: 'retryable',
    says: (_, { cause }) => `got no connection: ${(cause as Error).message}`,
    hint: () => 'are HTTP_PROXY and HTTPS_PROXY right? NO_PROXY lists hosts that need no proxy',
  },
  proxy_login: {
    code: 'proxy_login',
    kind: 'fatal',
    says: (_, { cause }) => `got no connection: ${(cause as Error).message}`,
    hint: () => 'write the login into the variable: HTTPS_PROXY=http://user:password@host:port',
  },
  first_byte_timeout: {
    code: 'timeout',
    kind: 'retryable',
    says: () => 'got no answer in time',
    hint: () => 'try a smaller `page_size`, or raise `timeouts_ms.first_byte`',
  },
  body_timeout: {
    code: 'timeout',
    kind: 'retryable',
    says: () => 'got an answer that stalled in the middle',
    hint: () => 'try a smaller `page_size`, or raise `timeouts_ms.body`',
  },
  total_timeout: {
    code: 'timeout',
    kind: 'retryable',
    says: () => 'got an answer that took longer than `timeouts_ms.total`',
    hint: () =>
      'the service, or something between it and cdsync, sends too slowly: try a smaller `page_size`, or raise `timeouts_ms.total`',
  },
  lost: {
    code: 'connection_lost',
    kind: 'retryable',
    says: () => 'lost its connection before the answer',
    hint: () => again,
  },
  torn: { code: 'connection_lost', kind: 'retryable', says: () => 'got an answer that broke off', hint: () => again },
  too_large: {
    code: 'response_too_large',
    kind: 'fatal',
    says: (_, { mostBytes }) => `got an answer of more than ${formatBytes(mostBytes)}`,
    hint: (_, __, { mostBytes }) =>
      mostBytes < maxBodyBytes
        ? 'ask for fewer records (`page_size`), or raise `resources.memory_mb`: one answer may have a quarter of it'
        : 'ask for fewer records (`page_size`)',
  },
  unsendable: {
    code: 'unsendable_request',
    kind: 'fatal',
    says: () => 'cannot be sent over HTTP',
    hint: () => 'check `tenant_id`, the header names and the versions for characters that HTTP does not allow',
  },
};

/** Whether a failed exchange may succeed if it is tried again. A connection that is not trusted may be one that was cut. */
export function isPassing(reason: Exclude<TransportErrorReason, 'closed'>): boolean {
  return reason === 'tls' || wordings[reason].kind === 'retryable';
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
  const { code, kind, says, hint } = wordings[reason];
  const isProxy = reason === 'proxy' || reason === 'proxy_login';
  const cause = failure.systemCode === undefined || isProxy ? '' : ` (${failure.systemCode})`;
  const tries = attempts > 1 ? `, tried ${attempts} times` : '';
  return new ServiceError(`${label} ${says(host, failure)}${cause}${tries}`, {
    code,
    kind,
    hint: hint(host, option, failure),
    cause: failure.cause,
  });
}

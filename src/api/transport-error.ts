import { errors } from '../core/undici.js';

/**
 * Why an exchange has no response:
 * - `dns`, `refused`, `connect_timeout`, `tls`: no connection; nothing was sent.
 * - `proxy`, `proxy_login`: a proxy is between, and made no connection; nothing was sent.
 * - `first_byte_timeout`, `body_timeout`: the response did not begin, or stalled.
 * - `total_timeout`: the response kept coming, but not fast enough.
 * - `files`, `memory`: this machine gives the process no more of them; nothing was sent.
 * - `lost`: the connection broke before the response began.
 * - `torn`: the response broke off, or its compression is broken.
 * - `encoded`: the body is compressed in a way that was not asked for.
 * - `too_large`: the response is larger than the client accepts, before or after decompression.
 * - `large_headers`: the headers of the response are larger than the client accepts.
 * - `large_request`: the headers of the request are larger than servers take; nothing was sent.
 * - `http2`: the server speaks another version of HTTP.
 * - `closed`: the client was closed.
 * - `unsendable`: HTTP cannot carry the request; a defect of the caller.
 */
export type TransportErrorReason =
  | 'dns'
  | 'refused'
  | 'connect_timeout'
  | 'tls'
  | 'proxy'
  | 'proxy_login'
  | 'files'
  | 'memory'
  | 'first_byte_timeout'
  | 'body_timeout'
  | 'total_timeout'
  | 'lost'
  | 'torn'
  | 'encoded'
  | 'too_large'
  | 'large_headers'
  | 'large_request'
  | 'http2'
  | 'closed'
  | 'unsendable';

/** An exchange without a whole response; never leaves the client. */
export class TransportError extends Error {
  readonly reason: TransportErrorReason;
  /** The code of Node or undici, for messages: `ECONNREFUSED`. */
  readonly systemCode: string | undefined;
  /** Of `too_large`: the most bytes that a body may have. */
  readonly maxBytes: number;

  constructor(reason: TransportErrorReason, cause: unknown, maxBytes = 0) {
    super(reason, { cause });
    this.reason = reason;
    this.maxBytes = maxBytes;
    this.systemCode = codeOf(cause);
  }
}

/** When there was a connection, the request could not be sent any more. */
export class WithheldError extends Error {}

const byCode: Readonly<Record<string, TransportErrorReason>> = {
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'refused',
  EHOSTDOWN: 'refused',
  ENETUNREACH: 'refused',
  ENETDOWN: 'refused',
  EADDRNOTAVAIL: 'refused',
  EMFILE: 'files',
  ENFILE: 'files',
  ENOMEM: 'memory',
  EPROXY: 'proxy',
  EPROXYLOGIN: 'proxy_login',
  UND_ERR_CONNECT_TIMEOUT: 'connect_timeout',
  UND_ERR_HEADERS_TIMEOUT: 'first_byte_timeout',
  UND_ERR_BODY_TIMEOUT: 'body_timeout',
  UND_ERR_HEADERS_OVERFLOW: 'large_headers',
  // A server that offers HTTP/2 alone ends the handshake, because the client offers HTTP/1.1.
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: 'http2',
  UND_ERR_DESTROYED: 'closed',
  UND_ERR_CLOSED: 'closed',
  UND_ERR_INVALID_ARG: 'unsendable',
};

/** By the system call that has failed, for codes that are not in the list. */
const bySystemCall: Readonly<Record<string, TransportErrorReason>> = { getaddrinfo: 'dns', connect: 'refused' };

/** The codes of OpenSSL's verification and of Node's TLS. */
const tlsCode =
  /^(ERR_TLS_|ERR_SSL_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|EPROTO$)/;

/** @param responseBegan whether the status line and the headers had come */
export function exchangeFailure(cause: unknown, responseBegan: boolean): TransportError {
  const code = codeOf(cause) ?? '';
  // undici's parser error keeps the bytes that it could not read, which may hold personal data.
  if (cause instanceof errors.HTTPParserError) delete (cause as { data?: unknown }).data;
  const reason = byCode[code] ?? (tlsCode.test(code) ? 'tls' : undefined);
  if (reason !== undefined) return new TransportError(reason, cause);
  if (code === 'ETIMEDOUT' && !responseBegan) return new TransportError('connect_timeout', cause);
  // undici's parser is WebAssembly. Where addresses are limited (ulimit -v), V8 cannot start it.
  if (cause instanceof RangeError && /memory/i.test(cause.message)) return new TransportError('memory', cause);
  const { syscall = '' } = (cause ?? {}) as NodeJS.ErrnoException;
  return new TransportError(bySystemCall[syscall] ?? (responseBegan ? 'torn' : 'lost'), cause);
}

function codeOf(cause: unknown): string | undefined {
  const code = (cause as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' ? code : undefined;
}

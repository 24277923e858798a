import { BlockList, isIP } from 'node:net';
import { CdsyncError } from '../core/errors.js';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/**
 * Whether nothing leaves this machine on the way to a host: a loopback address, `localhost`, or the path of a Unix socket. Any
 * other name counts as another machine, whatever its address.
 */
export function isThisMachine(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  const version = isIP(bare);
  if (version === 0) return bare === 'localhost' || bare.startsWith('/');
  return loopback.check(bare, version === 4 ? 'ipv4' : 'ipv6');
}

/**
 * The error for a destination that would send a secret to another machine without encryption. Throw it before connecting.
 * @param secret in words
 * @param hint how to encrypt, and the option that allows plain text
 */
function plaintextRefused(host: string, secret: string, hint: string): CdsyncError {
  return new CdsyncError(`${secret} would go to ${host} without encryption`, {
    code: 'destination_plaintext',
    hint,
  });
}

/**
 * Call it before connecting to a URL of HTTP.
 * @param secret what would be sent, in words; false if nothing secret is
 * @param isAllowed the option `allow_http`
 * @throws {CdsyncError} `destination_plaintext`
 */
export function assertHttps({ protocol, hostname }: URL, secret: string | false, isAllowed: boolean): void {
  if (protocol !== 'http:' || secret === false || isAllowed || isThisMachine(hostname)) return;
  const hint = 'use https://; or, if the way there is safe, allow it with `allow_http: true`';
  throw plaintextRefused(hostname, secret, hint);
}

/** Whether to encrypt a connection to PostgreSQL, and whether to check the certificate. */
export type PostgresTls = 'verify' | 'required' | 'off';

/** The next step if PostgreSQL and its client agree on no encrypted connection. */
export const postgresEncryptionHint =
  'for a certificate of a private authority, name its file in the URL: ?sslrootcert=…; `tls: required` checks no certificate, `tls: off` does not encrypt';

/** The wish of a URL itself. `prefer` and `allow` would fall back to plain text, so they say nothing. */
function tlsModeOf(parameters: URLSearchParams): PostgresTls | undefined {
  const mode = parameters.get('sslmode') ?? parameters.get('ssl') ?? '';
  if (/^(disable|0|false)$/.test(mode)) return 'off';
  if (mode === 'no-verify') return 'required';
  return /^(require|verify-ca|verify-full|1|true)$/.test(mode) ? 'verify' : undefined;
}

/** A URL of PostgreSQL without its settings of TLS; certificates and keys stay. */
export function withoutPostgresTls(url: URL): URL {
  const bare = new URL(url);
  for (const name of ['sslmode', 'ssl', 'uselibpqcompat']) bare.searchParams.delete(name);
  return bare;
}

/**
 * The URL of PostgreSQL with exactly one way to connect, encrypted or not. The option decides, then the URL; otherwise the certificate is
 * verified, unless the host is this machine.
 * @param host the host of the URL
 * @throws {CdsyncError} `destination_plaintext` if only the URL asks for plain text, and the host is another machine: such URLs
 * are copied from place to place
 */
export function withPostgresTls(url: URL, host: string, option: PostgresTls | undefined): URL {
  const isLocal = isThisMachine(host);
  const mode = tlsModeOf(url.searchParams);
  if (option === undefined && mode === 'off' && !isLocal)
    throw plaintextRefused(
      host,
      'the password and all rows',
      'remove `sslmode=disable` from the URL; or, if the way there is safe, allow it with `tls: off`',
    );
  const tls = option ?? mode ?? (isLocal ? 'off' : 'verify');
  const decided = withoutPostgresTls(url);
  decided.searchParams.set('sslmode', { verify: 'verify-full', required: 'no-verify', off: 'disable' }[tls]);
  return decided;
}

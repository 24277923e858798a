import { BlockList, isIP } from 'node:net';
import { CdsyncError } from '../core/errors.js';

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/**
 * Whether nothing leaves this machine on the way to a host: a loopback address, `localhost`, or the path of a Unix socket. Any
 * other name counts as another machine, wherever it leads.
 */
export function isThisMachine(host: string): boolean {
  const bare = host.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  const version = isIP(bare);
  if (version === 0) return bare === 'localhost' || bare.startsWith('/');
  return loopback.check(bare, version === 4 ? 'ipv4' : 'ipv6');
}

/**
 * The error for a destination that would send a secret to another machine without encryption. Throw it before connecting.
 * @param what the secret, in words
 * @param hint how to encrypt, and the option that allows plain text
 */
export function plaintextRefused(host: string, what: string, hint: string): CdsyncError {
  return new CdsyncError(`${what} would go to ${host} without encryption`, {
    code: 'destination_plaintext',
    hint,
  });
}

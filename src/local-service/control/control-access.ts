import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ServiceError, unauthorized } from '../http/response.js';

/** A control token that nobody can guess. It has no hyphen: a word that begins with one is no value of an option. */
export function newControlToken(): string {
  return randomBytes(24).toString('hex');
}

/** Whether a host name, or an address, is this machine for whoever uses it. */
export function isLoopbackHost(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '').toLowerCase();
  return name === 'localhost' || name === '::1' || /^(::ffff:)?127\.\d+\.\d+\.\d+$/.test(name);
}

function hostNameOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}

/**
 * Decides who may steer the service. The token stops other users of this machine and scripts that only know the port. The
 * check of `Host` stops a web page whose name was pointed to this machine (DNS rebinding); that of `Origin`, any web page.
 */
export class ControlAccess {
  readonly #digest: Buffer;
  readonly #host: string;

  /** @param host the address that the service listens on */
  constructor(token: string, host: string) {
    this.#digest = digestOf(token);
    this.#host = host;
  }

  /** @throws {ServiceError} 403 from another machine or a web page, 401 without the token */
  check({ headers, socket }: Pick<IncomingMessage, 'headers' | 'socket'>): void {
    if (!isLoopbackHost(socket.remoteAddress ?? '')) {
      throw new ServiceError(403, 'the service is steered from its own machine only');
    }
    const { host = '', origin } = headers;
    const name = hostNameOf(`http://${host}`);
    if (name === undefined || !(isLoopbackHost(name) || name === hostNameOf(`http://${bracketed(this.#host)}`))) {
      throw new ServiceError(403, 'the Host header names another machine');
    }
    if (origin !== undefined && origin !== `http://${host}` && origin !== `https://${host}`) {
      throw new ServiceError(403, 'a web page of another origin may not steer the service');
    }
    const given = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? headers['x-control-token'];
    if (typeof given !== 'string' || !timingSafeEqual(digestOf(given), this.#digest)) {
      throw unauthorized('send the control token that cdsync serve prints, as Authorization: Bearer TOKEN');
    }
  }
}

function bracketed(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

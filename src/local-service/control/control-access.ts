import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ServiceError, unauthorized } from '../http/response.js';

/** A new random control token. It has no hyphen, because an option's value cannot begin with one. */
export function newControlToken(): string {
  return randomBytes(24).toString('hex');
}

/** Whether a host name or address means this machine on every machine. */
export function isLoopbackHost(host: string): boolean {
  const name = host.replace(/^\[|\]$/g, '').toLowerCase();
  return name === 'localhost' || name === '::1' || /^(::ffff:)?127\.\d+\.\d+\.\d+$/.test(name);
}

function hostNameOf(url: string): string | undefined {
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}

/**
 * Decides who may control the service. The token stops other users of this machine and scripts that only know the port. The
 * check of `Host` stops a web page whose name was pointed to this machine (DNS rebinding); `Origin` stops all other web pages.
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
    const token = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? headers['x-control-token'];
    if (typeof token !== 'string' || !timingSafeEqual(digestOf(token), this.#digest)) {
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

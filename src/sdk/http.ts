import type { Pool } from 'undici';
import { CdsyncError } from '../core/errors.js';
import { byProxy, proxyFor } from '../core/proxy.js';
import { ProxyFailure } from '../core/proxy-failure.js';
import { decodedLogin } from '../core/secret.js';
import { systemCode } from './errors.js';

export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE' | 'OPTIONS';
  /** With its query. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | null | undefined;
}

/** A response of any status. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  /** There was more than `maxBytes`: the rest was not read. */
  readonly isCut: boolean;
}

/**
 * No response arrived, or only a part of one: the server may have done it. The message has the host, or the proxy that refused, and no
 * more of the URL.
 */
export class NoResponse extends Error {
  /** Of the system, of TLS or of the proxy; empty if there is none. */
  readonly code: string;

  constructor(from: string, cause: unknown) {
    const code = systemCode(cause);
    const message = `no response from ${from}${code === '' ? '' : ` (${code})`}`;
    super(cause instanceof ProxyFailure ? cause.message : message, { cause });
    this.code = code;
  }
}

interface HttpOptions {
  /** Most requests under way at the same time. */
  readonly connections: number;
  readonly connectMs: number;
  /** The longest wait for the response to begin, or to continue. Default: 5 minutes. 0: without end. */
  readonly silenceMs?: number | undefined;
  /** Of a longer response the rest is not read. Default: all of it is. */
  readonly maxBytes?: number | undefined;
  /** Certificates of authorities to trust, in PEM, instead of those that Node.js trusts. */
  readonly ca?: string | undefined;
}

/** The header of the login in a URL; none if it has no user. */
export function basicLogin({ username, password }: URL): Record<string, string> {
  if (username === '') return {};
  const login = `${decodedLogin(username)}:${decodedLogin(password)}`;
  return { authorization: `Basic ${Buffer.from(login, 'utf8').toString('base64')}` };
}

/**
 * The connections to one server of HTTP, by the proxy that the environment names for it. Sends each request once: it repeats none,
 * and follows no redirect.
 */
export class HttpConnections {
  readonly #host: string;
  readonly #open: () => Promise<Pool>;
  #pool: Promise<Pool> | undefined;
  readonly #maxBytes: number;

  /** @throws {CdsyncError} `proxy_invalid` */
  constructor(server: URL, { connections, connectMs, silenceMs, maxBytes, ca }: HttpOptions) {
    this.#host = server.host;
    const connect = { timeout: connectMs, ...(ca === undefined ? {} : { ca }) };
    const proxy = proxyFor(server, process.env);
    this.#maxBytes = maxBytes ?? Number.POSITIVE_INFINITY;
    const timeouts = silenceMs === undefined ? {} : { headersTimeout: silenceMs, bodyTimeout: silenceMs };
    this.#open = async () => {
      // Not before the first request: commands that send none start sooner.
      const { buildConnector, Pool } = await import('undici');
      const way = proxy === undefined ? connect : byProxy(proxy, connectMs, buildConnector(connect));
      return new Pool(server.origin, { connections, connect: way, ...timeouts });
    };
  }

  /**
   * @throws {NoResponse}
   * @throws the reason of the signal
   */
  async send(request: HttpRequest, signal?: AbortSignal): Promise<HttpResponse> {
    try {
      return await this.#send(request, signal);
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof CdsyncError ? error : new NoResponse(this.#host, error);
    }
  }

  async #send(
    { method, path, headers = {}, body: sent = null }: HttpRequest,
    signal?: AbortSignal,
  ): Promise<HttpResponse> {
    this.#pool ??= this.#open();
    const response = await (await this.#pool).request({ method, path, headers, body: sent, ...(signal && { signal }) });
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of response.body) {
      chunks.push(chunk as Buffer);
      length += (chunk as Buffer).length;
      if (length > this.#maxBytes) break;
    }
    const body = Buffer.concat(chunks).toString('utf8', 0, Math.min(length, this.#maxBytes));
    return { status: response.statusCode, headers: response.headers, body, isCut: length > this.#maxBytes };
  }

  async close(): Promise<void> {
    await (await this.#pool)?.destroy();
  }
}

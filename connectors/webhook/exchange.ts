import { buildConnector, Pool } from 'undici';
import {
  byProxy,
  CdsyncError,
  ProxyFailure,
  proxyFor,
  refuseHttp,
  systemCode,
  untrusted,
} from '../../src/sdk/index.js';

/** A response of any status. */
export interface EndpointResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

interface Exchange {
  readonly method: 'POST' | 'OPTIONS';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
}

/** No response arrived, or only a part of one. */
export class NoResponse extends Error {}

/** The longest response that is read: results of records, or a page of a proxy, are far shorter. */
const maxResponseBytes = 4 * 1024 * 1024;

interface EndpointOptions {
  readonly url: string;
  readonly timeoutMs: number;
  /** Certificates in PEM. */
  readonly ca: string | undefined;
  /** Most requests under way at the same time. */
  readonly connections: number;
  /** Whether requests have headers that are secret. */
  readonly hasSecretHeaders: boolean;
  /** Whether secrets may go to another machine over http://. */
  readonly allowHttp: boolean;
}

/** The longest delay of Node's timers. */
const longestMs = 2 ** 31 - 1;

function targetOf(url: string): { target: URL; login: string | undefined } {
  try {
    const target = new URL(url);
    if (target.username === '') return { target, login: undefined };
    return { target, login: `${decodeURIComponent(target.username)}:${decodeURIComponent(target.password)}` };
  } catch {
    // Without the cause: it would quote the URL.
    throw new CdsyncError('`url` is not a URL', {
      code: 'destination_url',
      hint: 'write it as https://host/path; in a password, write characters other than letters and digits as %xx',
    });
  }
}

/** The connections to one receiver. Sends a request once; retries nothing, accepts any status, follows no redirect. */
export class Endpoint {
  /** For messages: the only part of the URL that certainly is not secret. */
  readonly host: string;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #authorization: Record<string, string>;
  readonly #timeoutMs: number;

  /** @throws {CdsyncError} `destination_url`, `destination_plaintext` */
  constructor({ url, timeoutMs, ca, connections, hasSecretHeaders, allowHttp }: EndpointOptions) {
    const { target, login } = targetOf(url);
    const isSecret = hasSecretHeaders || login !== undefined || target.search !== '';
    refuseHttp(target, isSecret && 'the login, the headers or the query of the URL', allowHttp);
    const basic = login === undefined ? undefined : `Basic ${Buffer.from(login, 'utf8').toString('base64')}`;
    this.host = target.host;
    this.#path = target.pathname + target.search;
    this.#authorization = basic === undefined ? {} : { authorization: basic };
    this.#timeoutMs = Math.min(timeoutMs, longestMs);
    const connect = { timeout: this.#timeoutMs, ...(ca === undefined ? {} : { ca }) };
    const proxy = proxyFor(target, process.env);
    this.#pool = new Pool(target.origin, {
      connections,
      connect: proxy === undefined ? connect : byProxy(proxy, this.#timeoutMs, buildConnector(connect)),
      // Our own timer covers the whole request.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /**
   * @throws {NoResponse} if no complete response arrived; another attempt may succeed
   * @throws {CdsyncError} `destination_tls`, `destination_refused`
   */
  post(headers: Readonly<Record<string, string>>, body: string, signal: AbortSignal): Promise<EndpointResponse> {
    return this.#timed({ method: 'POST', headers, body }, signal);
  }

  /**
   * Asks the receiver which methods it takes, without a body and without the signature of a batch.
   * @returns the status: any shows that it is there
   * @throws what {@link post} throws
   */
  async knock(signal: AbortSignal): Promise<number> {
    return (await this.#timed({ method: 'OPTIONS', headers: {}, body: null }, signal)).status;
  }

  async #timed(request: Exchange, signal: AbortSignal): Promise<EndpointResponse> {
    const stop = new AbortController();
    const abort = () => stop.abort(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      stop.abort();
    }, this.#timeoutMs);
    try {
      return await this.#exchange(request, stop.signal);
    } catch (error) {
      signal.throwIfAborted();
      if (late) throw new NoResponse(`no response from ${this.host} within ${this.#timeoutMs / 1000} s`);
      throw this.#failure(error);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  async #exchange({ method, headers, body }: Exchange, signal: AbortSignal): Promise<EndpointResponse> {
    const response = await this.#pool.request({
      method,
      path: this.#path,
      headers: { ...this.#authorization, ...headers },
      body,
      signal,
    });
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of response.body) {
      length += (chunk as Buffer).length;
      if (length > maxResponseBytes) throw this.#tooLong();
      chunks.push(chunk as Buffer);
    }
    return { status: response.statusCode, headers: response.headers, body: Buffer.concat(chunks).toString('utf8') };
  }

  #failure(error: unknown): Error {
    if (error instanceof CdsyncError) return error;
    if (error instanceof ProxyFailure) return new NoResponse(error.message);
    const code = systemCode(error);
    if (!untrusted.test(code)) return new NoResponse(`no response from ${this.host}${code === '' ? '' : ` (${code})`}`);
    return new CdsyncError(`there is no trusted connection to ${this.host} (${code})`, {
      code: 'destination_tls',
      hint: 'for a certificate of a private authority, set `ca_file` to its file; otherwise check host, port and scheme of `url`',
      cause: error,
    });
  }

  #tooLong(): CdsyncError {
    return new CdsyncError(`${this.host} has responded with more than ${maxResponseBytes} bytes`, {
      code: 'destination_refused',
      hint: 'is `url` right? A receiver sends only short responses: see the page of the connector',
    });
  }
}

import {
  basicLogin,
  CdsyncError,
  callAfter,
  HttpConnections,
  type HttpRequest,
  type HttpResponse,
  NoResponse,
  type OptionValues,
  refuseHttp,
  tlsRefused,
  untrusted,
} from '../../src/sdk/index.js';
import type { WebhookShape } from './options.js';

/** The longest response that is read: results of records, or a page of a proxy, are far shorter. */
const maxResponseBytes = 4 * 1024 * 1024;

/** The longest delay of Node's timers. */
const longestMs = 2 ** 31 - 1;

/** The connections to one receiver. Sends a request once; retries nothing, accepts any status, follows no redirect. */
export class Endpoint {
  /** For messages: the only part of the URL that certainly is not secret. */
  readonly host: string;
  readonly #http: HttpConnections;
  readonly #path: string;
  readonly #authorization: Record<string, string>;
  readonly #timeoutMs: number;

  /** @throws {CdsyncError} `destination_url`, `destination_plaintext` */
  constructor(
    { url, timeout, headers, allowHttp }: OptionValues<WebhookShape>,
    own: { readonly connections: number; readonly ca: string | undefined },
  ) {
    const target = targetOf(url.reveal());
    this.#authorization = basicLogin(target);
    const isSecret = Object.keys(headers).length > 0 || target.username !== '' || target.search !== '';
    refuseHttp(target, isSecret && 'the login, the headers or the query of the URL', allowHttp);
    this.host = target.host;
    this.#path = target.pathname + target.search;
    this.#timeoutMs = Math.min(timeout, longestMs);
    // Our own timer covers the whole request.
    const limits = { connectMs: this.#timeoutMs, silenceMs: 0, maxBytes: maxResponseBytes };
    this.#http = new HttpConnections(target, { ...own, ...limits });
  }

  /**
   * @throws {NoResponse} if no complete response arrived; another attempt may succeed
   * @throws {CdsyncError} `destination_tls`, `destination_refused`
   */
  post(headers: Readonly<Record<string, string>>, body: string, signal: AbortSignal): Promise<HttpResponse> {
    return this.#timed({ method: 'POST', headers, body }, signal);
  }

  /**
   * Asks the receiver which methods it takes, without a body and without the signature of a batch.
   * @returns the status: any shows that it is there
   * @throws what {@link post} throws
   */
  async knock(signal: AbortSignal): Promise<number> {
    return (await this.#timed({ method: 'OPTIONS' }, signal)).status;
  }

  async #timed({ method, headers, body }: Omit<HttpRequest, 'path'>, signal: AbortSignal): Promise<HttpResponse> {
    const stop = new AbortController();
    const abort = () => stop.abort(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    let late = false;
    const cancel = callAfter(this.#timeoutMs, () => {
      late = true;
      stop.abort();
    });
    try {
      const all = { ...this.#authorization, ...headers };
      const response = await this.#http.send({ method, path: this.#path, headers: all, body }, stop.signal);
      if (response.isCut) throw this.#tooLong();
      return response;
    } catch (error) {
      signal.throwIfAborted();
      if (late) throw new NoResponse(`${this.host} within ${this.#timeoutMs / 1000} s`, error);
      throw this.#failure(error);
    } finally {
      cancel();
      signal.removeEventListener('abort', abort);
    }
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  #failure(error: unknown): unknown {
    if (!(error instanceof NoResponse) || !untrusted.test(error.code)) return error;
    return tlsRefused(this.host, error.code, {
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

function targetOf(url: string): URL {
  try {
    const target = new URL(url);
    decodeURIComponent(target.username + target.password);
    return target;
  } catch {
    // Without the cause: it would quote the URL.
    throw new CdsyncError('`url` is not a URL', {
      code: 'destination_url',
      hint: 'write it as https://host/path; in a password, write characters other than letters and digits as %xx',
    });
  }
}

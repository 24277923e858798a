import { brotliDecompressSync, gunzipSync, inflateRawSync, inflateSync } from 'node:zlib';
import type { Dispatcher, Pool } from 'undici';
import { callAfter } from '../core/clock.js';
import { CdsyncError } from '../core/errors.js';
import { onAbort } from '../core/on-abort.js';
import { byProxy, proxyFor } from '../core/proxy.js';
import { ProxyFailure } from '../core/proxy-failure.js';
import { decodedLogin } from '../core/secret.js';
import { systemCode } from './errors.js';
import { silenceMs as firstSilenceMs } from './silence.js';

export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';
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
    const what = /^Z_|BROTLI|ERROR_FORMAT/.test(code) ? 'a response that cannot be unpacked' : 'no response';
    const message = `${what} from ${from}${code === '' ? '' : ` (${code})`}`;
    super(cause instanceof ProxyFailure ? cause.message : message, { cause });
    this.code = code;
  }
}

interface HttpOptions {
  /** Most requests under way at the same time. */
  readonly connections: number;
  readonly connectMs: number;
  /** The longest wait for the response to begin, or to continue: of the first at most 40 s. Default: 5 minutes. 0: without end. */
  readonly silenceMs?: number | undefined;
  /** Of a longer response the rest is not read. Default: all of it is. */
  readonly maxBytes?: number | undefined;
  /** Certificates of authorities to trust, in PEM, instead of those that Node.js trusts. */
  readonly ca?: string | undefined;
  /** The certificate of this end, in PEM. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly passphrase?: string | undefined;
}

/**
 * The body without its compression; undefined if it is longer than that.
 * @throws if it is torn
 */
function decode(body: Buffer, { headers }: Pick<HttpResponse, 'headers'>, maxBytes: number): Buffer | undefined {
  // Several, in the order that they were applied: gzip, br.
  const [encoding = '', ...inner] = String(headers['content-encoding'] ?? '')
    .toLowerCase()
    .split(',')
    .map((word) => word.trim())
    .reverse();
  // Some servers send `deflate` without the header of zlib.
  const inflate = ((body[0] ?? 0) & 0x0f) === 8 ? inflateSync : inflateRawSync;
  const unpack = { gzip: gunzipSync, 'x-gzip': gunzipSync, deflate: inflate, br: brotliDecompressSync }[encoding];
  if (unpack === undefined || body.length === 0) return body;
  try {
    const content = unpack(body, Number.isFinite(maxBytes) ? { maxOutputLength: maxBytes } : {});
    if (inner.length === 0) return content;
    return decode(content, { headers: { 'content-encoding': inner.reverse().join(',') } }, maxBytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return undefined;
    throw error;
  }
}

/** The header of the login in a URL; none if it has no user. */
export function basicLogin({ username, password }: URL): Record<string, string> {
  if (username === '') return {};
  const login = `${decodedLogin(username)}:${decodedLogin(password)}`;
  return { authorization: `Basic ${Buffer.from(login, 'utf8').toString('base64')}` };
}

type Received = Pick<HttpResponse, 'status' | 'headers'> & {
  readonly chunks: readonly Buffer[];
  readonly length: number;
};

/**
 * Collects one response, as far as it is read. Undici's `request` makes streams and signals of each, which takes several times as long.
 * Settles once, and at once when it is aborted: a request that waits for a connection has no controller.
 */
class Collector implements Dispatcher.DispatchHandler {
  readonly #resolve: (response: Received) => void;
  readonly #reject: (reason: Error) => void;
  readonly #maxBytes: number;
  #controller: Dispatcher.DispatchController | undefined;
  #aborted: Error | undefined;
  #status = 0;
  #headers: HttpResponse['headers'] = {};
  readonly #chunks: Buffer[] = [];
  #length = 0;

  constructor(maxBytes: number, resolve: (response: Received) => void, reject: (reason: Error) => void) {
    this.#maxBytes = maxBytes;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  abort(reason: Error): void {
    this.#aborted ??= reason;
    this.#reject(reason);
    this.#controller?.abort(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#aborted !== undefined) controller.abort(this.#aborted);
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: HttpResponse['headers']): void {
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#length += chunk.length;
    if (this.#length <= this.#maxBytes) return;
    this.onResponseEnd();
    controller.abort(new Error('the rest is not read'));
  }

  onResponseEnd(): void {
    this.#resolve({ status: this.#status, headers: this.#headers, chunks: this.#chunks, length: this.#length });
  }

  onResponseError(_: unknown, error: Error): void {
    this.#reject(error);
  }
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
  /** Of requests before the first response. */
  #limits: { readonly headersTimeout?: number; readonly bodyTimeout?: number };

  /** @throws {CdsyncError} `proxy_invalid` */
  constructor(server: URL, { connections, connectMs, silenceMs, maxBytes, ...tls }: HttpOptions) {
    this.#host = server.host;
    const certificates = Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined));
    const connect = { timeout: connectMs, ...certificates };
    const proxy = proxyFor(server, process.env);
    this.#maxBytes = maxBytes ?? Number.POSITIVE_INFINITY;
    const limits = (ms?: number) => (ms === undefined ? {} : { headersTimeout: ms, bodyTimeout: ms });
    this.#limits = limits(silenceMs === 0 ? 0 : Math.min(silenceMs ?? firstSilenceMs, firstSilenceMs));
    this.#open = async () => {
      // Not before the first request: commands that send none start sooner.
      const { buildConnector, Pool } = await import('../core/undici.js');
      const way = proxy === undefined ? connect : byProxy(proxy, connectMs, buildConnector(connect));
      return new Pool(server.origin, { connections, connect: way, ...limits(silenceMs) });
    };
  }

  /**
   * @param timeoutMs of the whole exchange; default: without end
   * @throws {NoResponse}
   * @throws the reason of the signal
   */
  async send(request: HttpRequest, signal?: AbortSignal, timeoutMs?: number): Promise<HttpResponse> {
    try {
      return this.#read(await this.#exchange(request, signal, timeoutMs));
    } catch (error) {
      signal?.throwIfAborted();
      throw error instanceof CdsyncError || error instanceof NoResponse ? error : new NoResponse(this.#host, error);
    }
  }

  async #exchange(
    { method, path, headers = {}, body = null }: HttpRequest,
    signal?: AbortSignal,
    timeoutMs?: number,
  ): Promise<Received> {
    signal?.throwIfAborted();
    this.#pool ??= this.#open();
    const pool = await this.#pool;
    let release = () => {};
    let cancel = () => {};
    try {
      return await new Promise<Received>((resolve, reject) => {
        const collector = new Collector(this.#maxBytes, resolve, reject);
        if (signal !== undefined) release = onAbort(signal, () => collector.abort(signal.reason));
        if (timeoutMs !== undefined) {
          const late = () => new NoResponse(`${this.#host} within ${timeoutMs / 1000} s`, new Error('late'));
          cancel = callAfter(timeoutMs, () => collector.abort(late()));
        }
        pool.dispatch({ method, path, headers, body, ...this.#limits }, collector);
      });
    } finally {
      release();
      cancel();
    }
  }

  #read({ status, headers, chunks, length }: Received): HttpResponse {
    this.#limits = {};
    const received = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    const decoded = length > this.#maxBytes ? undefined : decode(received, { headers }, this.#maxBytes);
    const body = (decoded ?? received.subarray(0, this.#maxBytes)).toString('utf8');
    return { status, headers, body, isCut: decoded === undefined };
  }

  async close(): Promise<void> {
    await (await this.#pool)?.destroy();
  }
}

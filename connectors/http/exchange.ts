import { readFile } from 'node:fs/promises';
import {
  assertHttps,
  basicLogin,
  CdsyncError,
  HttpConnections,
  type HttpRequest,
  type HttpResponse,
  loadRefused,
  NoResponse,
  type OptionValues,
  tlsRefused,
  untrusted,
} from '../../src/sdk/index.js';
import type { HttpShape } from './options.js';

/** The longest response that is read. */
const maxResponseBytes = 16 * 1024 * 1024;

/** Reads a file of certificates. @throws {CdsyncError} `destination_ca_file` */
async function pemFile(key: string, path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined;
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new CdsyncError(`the file of \`tls.${key}\` cannot be read: ${path}`, {
      code: 'destination_ca_file',
      hint: 'it must hold certificates or a key in PEM',
      cause: error,
    });
  }
}

let [latestUrl, latestTarget]: [string, URL | undefined] = ['', undefined];

/** A URL of the receiver. Most requests go where the one before went. @throws {CdsyncError} `destination_url` */
export function targetOf(url: string): URL {
  if (latestTarget !== undefined && url === latestUrl) return latestTarget;
  try {
    const target = new URL(url);
    decodeURIComponent(target.username + target.password);
    [latestUrl, latestTarget] = [url, target];
    return target;
  } catch {
    // Without the cause: it would quote the URL.
    throw new CdsyncError('`url` is not a URL', {
      code: 'destination_url',
      hint: 'write it as https://host/path; in a password, write characters other than letters and digits as %xx',
    });
  }
}

/** A URL with more parameters. */
export function withQuery(url: string, query: readonly (readonly [string, string])[]): string {
  if (query.length === 0) return url;
  const more = new URLSearchParams(Object.fromEntries(query)).toString();
  const [address = '', fragment] = url.split('#', 2);
  return `${address}${address.includes('?') ? '&' : '?'}${more}${fragment === undefined ? '' : `#${fragment}`}`;
}

interface Certificates {
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly passphrase?: string;
}

/** The connections to the hosts that a destination sends to. Sends a request once; repeats nothing, accepts any status. */
export class Exchange {
  readonly #pools = new Map<string, HttpConnections>();
  readonly #options: OptionValues<HttpShape>;
  readonly #tls: Certificates;
  readonly #hasLogin: boolean;

  private constructor(options: OptionValues<HttpShape>, tls: Certificates) {
    this.#options = options;
    this.#tls = tls;
    const forms = [options, options.insert, options.update, options.delete];
    const hasHeaders = forms.some((form) => typeof form === 'object' && Object.keys(form.headers ?? {}).length > 0);
    this.#hasLogin = options.auth !== undefined || hasHeaders;
  }

  static async open(options: OptionValues<HttpShape>): Promise<Exchange> {
    const { caFile, certFile, keyFile, passphrase } = options.tls ?? {};
    const [ca, cert, key] = [
      await pemFile('ca_file', caFile),
      await pemFile('cert_file', certFile),
      await pemFile('key_file', keyFile),
    ];
    const secret = passphrase === undefined ? {} : { passphrase: passphrase.reveal() };
    return new Exchange(options, { ca, cert, key, ...secret });
  }

  #pool(target: URL): HttpConnections {
    let pool = this.#pools.get(target.origin);
    if (pool === undefined) {
      const isSecret = this.#hasLogin || target.username !== '' || target.search !== '';
      assertHttps(target, isSecret && 'the login, the headers or the query of the URL', this.#options.allowHttp);
      const limits = { connectMs: this.#options.timeout, silenceMs: 0, maxBytes: maxResponseBytes };
      pool = new HttpConnections(target, { connections: this.#options.parallel, ...this.#tls, ...limits });
      this.#pools.set(target.origin, pool);
    }
    return pool;
  }

  /**
   * @throws {NoResponse} if no complete response arrived; another attempt may succeed
   * @throws {CdsyncError} `destination_tls`, `destination_refused`, `destination_url`, `destination_plaintext`
   */
  async send(url: string, request: Omit<HttpRequest, 'path'>, signal: AbortSignal): Promise<HttpResponse> {
    const target = targetOf(url);
    const pool = this.#pool(target);
    const headers = { 'accept-encoding': 'gzip, deflate, br', ...basicLogin(target), ...request.headers };
    const path = target.pathname + target.search;
    try {
      const response = await pool.send({ ...request, path, headers }, signal, this.#options.timeout);
      if (response.isCut) throw tooLong(target.host);
      return response;
    } catch (error) {
      signal.throwIfAborted();
      throw failure(target.host, error);
    }
  }

  /** Checks a URL before anything is sent there. @throws what {@link send} throws before it sends */
  expect(url: string): void {
    this.#pool(targetOf(url));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.close()));
  }
}

function failure(host: string, error: unknown): unknown {
  if (!(error instanceof NoResponse)) return error;
  if (untrusted.test(error.code))
    return tlsRefused(host, error.code, {
      hint: 'for a certificate of a private authority, set `tls: { ca_file }` to its file; otherwise check host, port and scheme of `url`',
      cause: error,
    });
  // Refused on this side, before a byte was sent: another attempt cannot succeed.
  if (error.code === 'UND_ERR_INVALID_ARG' || error.code === 'ERR_INVALID_CHAR')
    return loadRefused('a request has a header or a path that HTTP does not allow', {
      hint: 'check `headers` and `url`',
    });
  return error;
}

function tooLong(host: string): CdsyncError {
  return loadRefused(`${host} has responded with more than ${maxResponseBytes} bytes`, {
    hint: 'is `url` right? A receiver sends only short responses: see the page of the connector',
  });
}

import { buildConnector, Pool } from 'undici';
import {
  byProxy,
  CdsyncError,
  printable,
  proxyFor,
  refuseHttp,
  type Secret,
  systemCode,
  unavailable,
  untrusted,
} from '../../src/sdk/index.js';

const connectMs = 10_000;
/** A catalog reads and writes the metadata of a table in its object store before it responds. */
const responseMs = 120_000;

export interface CatalogRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'DELETE';
  /** Path and query, below the path of the base URL. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

export interface CatalogResponse {
  readonly status: number;
  readonly body: string;
}

/** The connections to a server of HTTP. Sends each request once, and returns a response of any status. */
export class CatalogHttp {
  /** For messages. */
  readonly host: string;
  readonly #pool: Pool;
  readonly #path: string;
  readonly #signal: AbortSignal;

  /** @throws {CdsyncError} `destination_plaintext` if a secret would go to another machine without encryption */
  constructor(
    url: string,
    { hasSecret, allowHttp, signal }: { hasSecret: boolean; allowHttp: boolean; signal: AbortSignal },
  ) {
    const target = new URL(url);
    refuseHttp(target, hasSecret && 'the token of the catalog', allowHttp);
    this.host = target.host;
    this.#path = target.pathname.replace(/\/+$/, '');
    this.#signal = signal;
    const connect = { timeout: connectMs };
    const proxy = proxyFor(target, process.env);
    this.#pool = new Pool(target.origin, {
      connections: 8,
      connect: proxy === undefined ? connect : byProxy(proxy, connectMs, buildConnector(connect)),
      headersTimeout: responseMs,
      bodyTimeout: responseMs,
    });
  }

  /** @throws {CdsyncError} `destination_unavailable`, `destination_tls`: it is then unknown whether the server did it */
  async send({ method, path, headers = {}, body }: CatalogRequest): Promise<CatalogResponse> {
    const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
    try {
      const response = await this.#pool.request({
        method,
        path: `${this.#path}${path}`,
        headers: { accept: 'application/json', ...type, ...headers },
        body: body ?? null,
        signal: this.#signal,
      });
      return { status: response.statusCode, body: await response.body.text() };
    } catch (error) {
      this.#signal.throwIfAborted();
      throw this.#failure(error);
    }
  }

  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  #failure(error: unknown): Error {
    if (error instanceof CdsyncError) return error;
    const code = systemCode(error);
    if (untrusted.test(code))
      return new CdsyncError(`there is no trusted connection to the catalog at ${this.host} (${code})`, {
        code: 'destination_tls',
        hint: 'for a certificate of a private authority, set NODE_EXTRA_CA_CERTS to its file; otherwise check host, port and scheme',
        cause: error,
      });
    const hint = 'is `catalog` right, and the catalog running?';
    return unavailable(`no response from the catalog at ${this.host}${code === '' ? '' : ` (${code})`}`, {
      hint,
      cause: error,
    });
  }
}

/** The login of a caller of the catalog. */
export interface CatalogLogin {
  readonly token?: Secret | undefined;
  readonly clientId?: string | undefined;
  readonly clientSecret?: Secret | undefined;
  readonly scope: string;
}

/** The text that an error of the server gives, without control characters. */
export function serverMessage(body: string): string {
  try {
    const { error, error_description: description } = JSON.parse(body) as {
      error?: unknown;
      error_description?: unknown;
    };
    const message = typeof error === 'object' && error !== null ? (error as { message?: unknown }).message : undefined;
    const said = message ?? description ?? error;
    return typeof said === 'string' ? printable(said.split('\n')[0] ?? '').slice(0, 300) : '';
  } catch {
    return '';
  }
}

/** The name of the error's type, such as `NoSuchTableException`. */
export function serverErrorType(body: string): string {
  try {
    const type = (JSON.parse(body) as { error?: { type?: unknown } }).error?.type;
    return typeof type === 'string' ? type : '';
  } catch {
    return '';
  }
}

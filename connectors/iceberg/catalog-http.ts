import {
  assertHttps,
  HttpConnections,
  type HttpRequest,
  type HttpResponse,
  NoResponse,
  printable,
  tlsRefused,
  unavailable,
  untrusted,
  untrustedHint,
} from '../../src/sdk/index.js';

const connectMs = 10_000;
/** A catalog reads and writes the metadata of a table in its object store before it responds. */
const silenceMs = 120_000;

/** The connections to a catalog, or to the server that gives its tokens. Paths are below that of its URL. */
export class CatalogHttp {
  /** For messages. */
  readonly host: string;
  readonly #http: HttpConnections;
  readonly #path: string;
  readonly #signal: AbortSignal;

  /** @throws {CdsyncError} `destination_plaintext` if a secret would go to another machine without encryption */
  constructor(
    url: string,
    { hasSecret, allowHttp, signal }: { hasSecret: boolean; allowHttp: boolean; signal: AbortSignal },
  ) {
    const target = new URL(url);
    assertHttps(target, hasSecret && 'the token of the catalog', allowHttp);
    this.host = target.host;
    this.#path = target.pathname.replace(/(?<!\/)\/+$/, '');
    this.#signal = signal;
    this.#http = new HttpConnections(target, { connections: 8, connectMs, silenceMs });
  }

  /** @throws {CdsyncError} `destination_unavailable`, `destination_tls`: it is then unknown whether the server did it */
  async send({ path, headers, body, ...request }: HttpRequest): Promise<HttpResponse> {
    const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
    const all = { accept: 'application/json', ...type, ...headers };
    try {
      return await this.#http.send({ ...request, path: `${this.#path}${path}`, headers: all, body }, this.#signal);
    } catch (error) {
      this.#signal.throwIfAborted();
      throw this.#failure(error);
    }
  }

  close(): Promise<void> {
    return this.#http.close();
  }

  #failure(error: unknown): unknown {
    if (!(error instanceof NoResponse)) return error;
    if (untrusted.test(error.code))
      return tlsRefused(`the catalog at ${this.host}`, error.code, {
        hint: untrustedHint,
        cause: error,
      });
    return unavailable(`the catalog: ${error.message}`, {
      hint: 'is `catalog` right, and the catalog running?',
      cause: error,
    });
  }
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

import { sleep } from '../core/clock.js';
import { CdsyncError } from '../core/errors.js';
import { untrusted, untrustedHint } from '../sdk/errors.js';
import { basicLogin, HttpConnections, type HttpResponse, NoResponse } from '../sdk/http.js';

/** A request to someone outside. Its URL may be a secret. */
interface WebhookRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Whether a receiver that does not take the method (404, 405) gets a GET without a body. */
  readonly orGet?: boolean;
}

/** The longest response that is read; receivers respond with a word. */
const maxBytes = 65_536;
const connectMs = 10_000;

/** Pauses before the second and the third attempt. */
const pausesMs = [500, 2_000];

function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

function failed(message: string, hint?: string): CdsyncError {
  return new CdsyncError(message, { code: 'receiver_failed', hint });
}

/** Connections to the receivers of notifications. Follows no redirect. */
export class WebhookClient {
  /** By the origin of the receiver. */
  readonly #servers = new Map<string, HttpConnections>();

  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.close()));
  }

  /**
   * Sends a request, up to three times if that may help.
   * @returns the response, of a status from 200 to 299
   * @throws {CdsyncError} `receiver_failed`: it names the host and nothing else of the URL
   */
  async send(request: WebhookRequest, signal: AbortSignal): Promise<HttpResponse> {
    for (let attempt = 0; ; attempt += 1) {
      const pause = pausesMs[attempt];
      try {
        const reply = await this.#once(request, signal);
        if (request.orGet && (reply.status === 404 || reply.status === 405))
          return this.send({ url: request.url, method: 'GET' }, signal);
        if (!isPassing(reply.status) || pause === undefined) return accepted(request, reply);
      } catch (error) {
        if (!(error instanceof NoResponse)) throw error;
        const hint = untrusted.test(error.code) ? untrustedHint : undefined;
        if (signal.aborted || pause === undefined || hint !== undefined) throw failed(error.message, hint);
      }
      // At the deadline, the next attempt says so.
      await sleep(pause, signal).catch(() => undefined);
    }
  }

  /**
   * Sends a request once.
   * @throws {NoResponse}
   * @throws {CdsyncError} `receiver_failed`
   */
  async #once({ url, method, headers, body }: WebhookRequest, signal: AbortSignal): Promise<HttpResponse> {
    const target = new URL(url);
    const { host, pathname, search } = target;
    const all = { 'user-agent': 'cdsync', ...basicLogin(target), ...headers };
    try {
      return await this.#server(target).send({ method, path: pathname + search, headers: all, body }, signal);
    } catch (error) {
      if (signal.aborted) throw new NoResponse(`${host} in time`, error);
      throw error instanceof CdsyncError ? failed(error.message, error.hint) : error;
    }
  }

  #server(target: URL): HttpConnections {
    const connections = this.#servers.get(target.origin);
    if (connections !== undefined) return connections;
    const server = new HttpConnections(target, { connections: 2, connectMs, maxBytes });
    this.#servers.set(target.origin, server);
    return server;
  }
}

/** @throws {CdsyncError} `receiver_failed` */
function accepted({ url }: WebhookRequest, reply: HttpResponse): HttpResponse {
  const { status } = reply;
  if (status >= 200 && status < 300) return reply;
  const { host } = new URL(url);
  if (status >= 300 && status < 400)
    throw failed(`${host} answered ${status}, and redirects are not followed`, 'write the final address');
  const hint =
    status === 401 || status === 403 || status === 404 || status === 410 ? 'is the URL still valid?' : undefined;
  throw failed(`${host} answered ${status}`, hint);
}

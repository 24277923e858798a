import { type Dispatcher, EnvHttpProxyAgent } from 'undici';
import { CdsyncError } from '../core/errors.js';
import { decodedLogin } from '../core/secret.js';

/** A request to someone outside. Its URL may be a secret. */
interface WebhookRequest {
  readonly url: string;
  readonly method: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

interface Reply {
  readonly status: number;
  readonly body: string;
}

/** The longest response that is read; receivers respond with a word. */
const maxReplyBytes = 65_536;

/** Pauses before the second and the third attempt. */
const pausesMs = [500, 2_000];

/** There was no response; the message names only the host. */
class NoResponse extends Error {}

function codeOf(error: unknown): string {
  const { code, cause } = (error ?? {}) as { code?: unknown; cause?: unknown };
  if (typeof code === 'string') return code;
  return cause === undefined ? '' : codeOf(cause);
}

function isPassing(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

function failed(message: string, hint?: string): CdsyncError {
  return new CdsyncError(message, { code: 'receiver_failed', hint });
}

/**
 * Connections to the receivers of notifications, through the proxy of the environment (`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`) if it
 * names one. Follows no redirect.
 */
export class WebhookClient {
  #agent: Dispatcher | undefined;

  async close(): Promise<void> {
    await this.#agent?.destroy();
  }

  /**
   * Sends a request, up to three times if that may help.
   * @returns the response, of a status from 200 to 299
   * @throws {CdsyncError} `receiver_failed`: it names the host and nothing else of the URL
   */
  async send(request: WebhookRequest, signal: AbortSignal): Promise<Reply> {
    for (let attempt = 0; ; attempt += 1) {
      const pause = pausesMs[attempt];
      try {
        const reply = await this.once(request, signal);
        if (!isPassing(reply.status) || pause === undefined) return accepted(request, reply);
      } catch (error) {
        if (!(error instanceof NoResponse) || signal.aborted || pause === undefined) throw asFailure(error);
      }
      await wait(pause, signal);
    }
  }

  /**
   * Sends a request once.
   * @throws {NoResponse}
   */
  async once({ url, method, headers, body }: WebhookRequest, signal: AbortSignal): Promise<Reply> {
    const { origin, pathname, search, host, username, password } = new URL(url);
    const login = `${decodedLogin(username)}:${decodedLogin(password)}`;
    const basic = username === '' ? {} : { authorization: `Basic ${Buffer.from(login, 'utf8').toString('base64')}` };
    try {
      // Not before it is needed: a proxy that is no URL must not keep a run from its work.
      this.#agent ??= new EnvHttpProxyAgent();
      const response = await this.#agent.request({
        origin,
        path: pathname + search,
        method,
        headers: { 'user-agent': 'cdsync', ...basic, ...headers },
        body: body ?? null,
        signal,
      });
      return { status: response.statusCode, body: await textOf(response.body) };
    } catch (error) {
      if (signal.aborted) throw new NoResponse(`${host} did not answer in time`);
      const code = codeOf(error);
      throw new NoResponse(`no answer from ${host}${code === '' ? '' : ` (${code})`}`);
    }
  }
}

async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > maxReplyBytes) break;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function asFailure(error: unknown): unknown {
  return error instanceof NoResponse ? failed(error.message) : error;
}

/** @throws {CdsyncError} `receiver_failed` */
function accepted({ url }: WebhookRequest, reply: Reply): Reply {
  const { status } = reply;
  if (status >= 200 && status < 300) return reply;
  const { host } = new URL(url);
  if (status >= 300 && status < 400)
    throw failed(`${host} answered ${status}, and redirects are not followed`, 'write the final address');
  const hint =
    status === 401 || status === 403 || status === 404 || status === 410 ? 'is the URL still valid?' : undefined;
  throw failed(`${host} answered ${status}`, hint);
}

/** Ends at once if the signal aborts. */
async function wait(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
    if (signal.aborted) done();
  });
}

import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { Pool } from 'undici';
import type { ServiceOptions } from '../core/service-options.js';
import { type Answer, AnswerCollector, type ExchangeObserver } from './answer-collector.js';
import { interrupted } from './errors.js';
import { ExchangeFailure } from './exchange-failure.js';
import { onAbort } from './on-abort.js';

/** The largest answer, before and after decompression: far larger than any page, small enough for the memory. */
const maxBodyBytes = 256 * 1024 * 1024;

const inflate = promisify(gunzip);

/** A request as it is sent. */
export interface WireRequest {
  readonly method: 'GET' | 'POST';
  /** The path from the root of the base URL, with the query, encoded. */
  readonly target: string;
  /** Names and values in turn. */
  readonly headers: readonly string[];
  readonly body: string | null;
}

/**
 * The connections to one base URL: sends a request once and returns its whole answer. Follows no redirects, retries
 * nothing, judges no status.
 *
 * Timeouts: `connect` for a connection with its TLS handshake; `firstByte` from the end of the request to the answer's
 * headers; `body` for any pause within the body, so that a large page may take long as long as bytes keep coming. undici
 * measures the last two with a coarse timer: they may fire up to a second late.
 */
export class Transport {
  /** `host:port` of the base URL, for messages. */
  readonly host: string;
  /** Whether any answer has ever come. */
  reached = false;
  readonly #pool: Pool;
  readonly #basePath: string;

  constructor({ baseUrl, timeoutsMs, concurrency }: Pick<ServiceOptions, 'baseUrl' | 'timeoutsMs' | 'concurrency'>) {
    const url = new URL(baseUrl);
    this.host = url.host;
    this.#basePath = url.pathname.replace(/\/+$/, '');
    this.#pool = new Pool(url.origin, {
      connections: concurrency,
      connect: { timeout: timeoutsMs.connect },
      headersTimeout: timeoutsMs.firstByte,
      bodyTimeout: timeoutsMs.body,
      maxResponseSize: maxBodyBytes,
    });
  }

  /**
   * @throws {ExchangeFailure}
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts
   */
  async exchange(request: WireRequest, signal: AbortSignal, observer: ExchangeObserver): Promise<Answer> {
    const answer = await this.#dispatch(request, signal, observer);
    this.reached = true;
    const encoding = answer.headers['content-encoding'];
    if (encoding === undefined || encoding === 'identity' || answer.body.length === 0) return answer;
    if (encoding !== 'gzip' && encoding !== 'x-gzip') {
      throw new ExchangeFailure('torn', new Error('the body is compressed in a way that was not asked for'));
    }
    return { ...answer, body: await inflated(answer.body) };
  }

  /** Ends all connections; requests that are under way fail as `closed`. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  #dispatch(request: WireRequest, signal: AbortSignal, observer: ExchangeObserver): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) throw interrupted(signal.reason);
      const collector = new AnswerCollector(
        observer,
        (answer) => {
          release();
          resolve(answer);
        },
        (error) => {
          release();
          reject(error);
        },
      );
      const release = onAbort(signal, () => collector.abort(interrupted(signal.reason)));
      const { method, target, headers, body } = request;
      // undici declares the list as writable, but only reads it.
      this.#pool.dispatch(
        { method, path: this.#basePath + target, headers: headers as string[], body, idempotent: true },
        collector,
      );
    });
  }
}

async function inflated(body: Buffer): Promise<Buffer> {
  try {
    return await inflate(body, { maxOutputLength: maxBodyBytes });
  } catch (error) {
    const tooLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    throw new ExchangeFailure(tooLarge ? 'too_large' : 'torn', error);
  }
}

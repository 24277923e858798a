import { buildConnector, Pool } from 'undici';
import type { ServiceOptions } from '../core/service-options.js';
import { type Answer, AnswerCollector, type ExchangeObserver } from './answer-collector.js';
import { bodyText } from './body-text.js';
import { interrupted } from './errors.js';
import { onAbort } from './on-abort.js';
import { withoutContinue } from './without-continue.js';

/** The largest answer, before and after decompression: far larger than any page, small enough for the memory. */
const maxBodyBytes = 256 * 1024 * 1024;

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
    const connect = buildConnector({ timeout: timeoutsMs.connect });
    this.#pool = new Pool(url.origin, {
      connections: concurrency,
      connect: (options, done) =>
        connect(options, (...[error, socket]) =>
          error === null ? done(null, withoutContinue(socket)) : done(error, null),
        ),
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
    return { ...answer, body: await bodyText(answer, maxBodyBytes) };
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

import { buildConnector, Pool } from 'undici';
import { byProxy, proxyFor } from '../core/proxy.js';
import type { ServiceOptions } from '../core/service-options.js';
import {
  type Answer,
  AnswerCollector,
  type ExchangeObserver,
  type RawAnswer,
  type Release,
} from './answer-collector.js';
import { mostAtOnce } from './at-once.js';
import type { BodyPlace, BodyRoom } from './body-room.js';
import { bodyText } from './body-text.js';
import { interrupted } from './errors.js';
import { onAbort } from './on-abort.js';
import { withoutContinue } from './without-continue.js';

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
 * headers; `body` for any pause within the body; `total` for the whole answer, however steadily its bytes come. undici
 * measures `firstByte` and `body` with a coarse timer: they may fire up to a second late.
 */
export class Transport {
  /** `host:port` of the base URL, for messages. */
  readonly host: string;
  /** Whether any answer has ever come. */
  reached = false;
  readonly #pool: Pool;
  readonly #basePath: string;
  readonly #room: BodyRoom;
  readonly #totalMs: number;

  /**
   * @param room where bodies are collected
   * @throws {CdsyncError} `proxy_invalid`
   */
  constructor(
    { baseUrl, timeoutsMs, concurrency }: Pick<ServiceOptions, 'baseUrl' | 'timeoutsMs' | 'concurrency'>,
    room: BodyRoom,
  ) {
    this.#room = room;
    this.#totalMs = timeoutsMs.total;
    const url = new URL(baseUrl);
    this.host = url.host;
    this.#basePath = url.pathname.replace(/\/+$/, '');
    const usual = buildConnector({ timeout: timeoutsMs.connect });
    const proxy = proxyFor(url, process.env);
    const connect = proxy === undefined ? usual : byProxy(proxy, timeoutsMs.connect, usual);
    this.#pool = new Pool(url.origin, {
      connections: mostAtOnce({ concurrency }),
      connect: (options, done) =>
        connect(options, (...[error, socket]) =>
          error === null ? done(null, withoutContinue(socket)) : done(error, null),
        ),
      headersTimeout: timeoutsMs.firstByte,
      bodyTimeout: timeoutsMs.body,
    });
  }

  /**
   * @throws {ExchangeFailure}
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts
   */
  async exchange(request: WireRequest, signal: AbortSignal, observer: ExchangeObserver): Promise<Answer> {
    const raw = await this.#dispatch(request, signal, observer);
    this.reached = true;
    const { place, ...answer } = raw;
    try {
      const body = await bodyText(raw, signal);
      place.settle(body.length);
      return { ...answer, body, release: this.#releaseOf(body, place) };
    } catch (error) {
      place.release();
      throw error;
    }
  }

  #releaseOf(body: Buffer, place: BodyPlace): Release {
    let isOver = false;
    return (reuse) => {
      // By a second call, the memory may be that of another body.
      if (isOver) return;
      isOver = true;
      place.release();
      if (reuse !== undefined) this.#room.pool.giveBack(body);
    };
  }

  /** Ends all connections; requests that are under way fail as `closed`. */
  async close(): Promise<void> {
    await this.#pool.destroy();
  }

  #dispatch(request: WireRequest, signal: AbortSignal, observer: ExchangeObserver): Promise<RawAnswer> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) throw interrupted(signal.reason);
      const collector = new AnswerCollector({
        observer,
        room: this.#room,
        totalMs: this.#totalMs,
        resolve: (answer) => {
          release();
          resolve(answer);
        },
        reject: (error) => {
          release();
          reject(error);
        },
      });
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

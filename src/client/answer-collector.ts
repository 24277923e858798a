import type { Dispatcher } from 'undici';
import { exchangeFailure } from './exchange-failure.js';

/** Headers by lower-case name; a header that came several times is a list. */
export type AnswerHeaders = Readonly<Record<string, string | string[] | undefined>>;

export interface Answer {
  readonly status: number;
  readonly headers: AnswerHeaders;
  readonly body: Buffer;
}

/** Tells the sender of one request how far it has come. Neither function may throw. */
export interface ExchangeObserver {
  /** The request goes onto a connection now; not called if there never was one. */
  readonly onSent: () => void;
  /** The answer has begun. */
  readonly onAnswer: () => void;
}

/** Collects the answer to one request; settles its promise exactly once, and immediately when `abort` is called. */
export class AnswerCollector implements Dispatcher.DispatchHandler {
  readonly #observer: ExchangeObserver;
  readonly #resolve: (answer: Answer) => void;
  readonly #reject: (error: Error) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #aborted: Error | undefined;
  #status = 0;
  #headers: AnswerHeaders = {};
  #chunks: Buffer[] = [];
  #size = 0;

  constructor(observer: ExchangeObserver, resolve: (answer: Answer) => void, reject: (error: Error) => void) {
    this.#observer = observer;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  abort(reason: Error): void {
    if (this.#aborted !== undefined) return;
    this.#aborted = reason;
    this.#controller?.abort(reason);
    // A request that still waits for a connection has no controller; its promise must not wait with it.
    this.#reject(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#aborted !== undefined) {
      controller.abort(this.#aborted);
      return;
    }
    this.#controller = controller;
    this.#observer.onSent();
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    // An informational answer (103 Early Hints) is not the answer proper.
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
    this.#observer.onAnswer();
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
  }

  onResponseEnd(): void {
    const [only] = this.#chunks;
    const body = this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks, this.#size);
    this.#resolve({ status: this.#status, headers: this.#headers, body });
  }

  onResponseError(_: unknown, error: Error): void {
    this.#reject(this.#aborted ?? exchangeFailure(error, this.#status !== 0));
  }
}

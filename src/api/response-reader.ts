import type { Dispatcher } from 'undici';
import { callAfter } from '../core/clock.js';
import type { BodyAllocation, BodyMemory } from './body-memory.js';
import { BodyBuilder, type ResponseBody } from './response-body.js';
import { exchangeFailure, TransportError, WithheldError } from './transport-error.js';

/** Headers by lower-case name; a header that was sent several times is a list. */
export type ResponseHeaders = Readonly<Record<string, string | string[] | undefined>>;

export interface ServiceResponse {
  readonly status: number;
  readonly headers: ResponseHeaders;
  /** The receiver owns it, and must dispose of it. */
  readonly body: ResponseBody;
}

/** Reports the progress of one request to its sender. Neither function may throw. */
export interface ExchangeObserver {
  /** Asked when the connection is there: whether the request may still be written to it. If not, nothing is sent. */
  readonly maySend?: () => boolean;
  /** The request goes onto a connection now; not called if there never was one. */
  readonly onSent: () => void;
  /** The response has begun. */
  readonly onResponse: () => void;
}

/** A response as received, with the place that its body takes. */
export interface RawResponse extends Omit<ServiceResponse, 'body'> {
  readonly body: Buffer;
  readonly place: BodyAllocation;
}

interface CollectorOptions {
  readonly observer: ExchangeObserver;
  readonly memory: BodyMemory;
  /** From the request to the end of the response; time in which the body waits for memory does not count. */
  readonly totalMs: number;
  readonly resolve: (response: RawResponse) => void;
  readonly reject: (error: Error) => void;
}

/** A body of unknown length gets memory in steps: as much again as it has, within these bounds. */
const step = { least: 64 * 1024, most: 4 * 1024 * 1024 };

/** Collects the response to one request; settles its promise exactly once, and immediately when `abort` is called. */
export class ResponseReader implements Dispatcher.DispatchHandler {
  readonly #options: CollectorOptions;
  #controller: Dispatcher.DispatchController | undefined;
  #aborted: Error | undefined;
  #status = 0;
  #headers: ResponseHeaders = {};
  #place: BodyAllocation | undefined;
  #body: BodyBuilder | undefined;
  #cancelTimer = () => {};
  #armedAt = 0;
  #leftMs: number;

  constructor(options: CollectorOptions) {
    this.#options = options;
    this.#leftMs = options.totalMs;
  }

  abort(reason: Error): void {
    if (this.#aborted !== undefined) return;
    this.#aborted = reason;
    this.#controller?.abort(reason);
    // A request that still waits for a connection has no controller; its promise must not wait with it.
    this.#fail(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#aborted !== undefined) {
      controller.abort(this.#aborted);
      return;
    }
    this.#controller = controller;
    if (this.#options.observer.maySend?.() === false) {
      this.abort(new WithheldError());
      return;
    }
    this.#armDeadline();
    this.#options.observer.onSent();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: ResponseHeaders): void {
    // An informational response (103 Early Hints) is not the response proper.
    if (status < 200) return;
    this.#status = status;
    this.#headers = headers;
    this.#options.observer.onResponse();
    const length = headers['content-length'];
    const stated = typeof length === 'string' && /^\d+$/.test(length) ? Number(length) : 0;
    this.#place = this.#options.memory.enter();
    this.#body = new BodyBuilder(Math.min(stated, this.#place.most), this.#options.memory.pool);
    this.#claim(controller, stated);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const { place, body } = this.#begun;
    const size = body.size + chunk.length;
    if (size > place.bytes) {
      const more = Math.min(step.most, Math.max(step.least, place.bytes));
      this.#claim(controller, Math.max(size, Math.min(size + more, place.most)));
    }
    if (this.#aborted === undefined) body.add(chunk);
  }

  onResponseEnd(): void {
    this.#disarmDeadline();
    const { place, body } = this.#begun;
    this.#options.resolve({ status: this.#status, headers: this.#headers, body: body.whole(), place });
  }

  onResponseError(_: unknown, error: Error): void {
    this.#fail(this.#aborted ?? exchangeFailure(error, this.#status !== 0));
  }

  get #begun(): { place: BodyAllocation; body: BodyBuilder } {
    return { place: this.#place as BodyAllocation, body: this.#body as BodyBuilder };
  }

  /** Asks for memory; until there is some, nothing more is read from the connection. */
  #claim(controller: Dispatcher.DispatchController, bytes: number): void {
    // Memory may become free while another connection is being read: undici reads one at a time.
    const onFree = () => setImmediate(() => this.#goOn(controller));
    try {
      if (this.#place?.claim(bytes, onFree) !== false || controller.paused) return;
      this.#disarmDeadline();
      controller.pause();
    } catch (error) {
      this.abort(error as TransportError);
    }
  }

  #goOn(controller: Dispatcher.DispatchController): void {
    if (this.#aborted !== undefined) return;
    this.#armDeadline();
    controller.resume();
  }

  #armDeadline(): void {
    this.#cancelTimer();
    this.#armedAt = performance.now();
    this.#cancelTimer = callAfter(this.#leftMs, () => this.abort(new TransportError('total_timeout', undefined)));
  }

  #disarmDeadline(): void {
    this.#cancelTimer();
    this.#leftMs = Math.max(1, this.#leftMs - (performance.now() - this.#armedAt));
  }

  #fail(error: Error): void {
    this.#aborted ??= error;
    this.#disarmDeadline();
    this.#place?.release();
    this.#options.reject(error);
  }
}

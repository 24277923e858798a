import type { Clock } from '../core/clock.js';
import { packageVersion } from '../core/package-version.js';
import type { ApiGroup, ServiceOptions } from '../core/service-options.js';
import { abortable } from './abortable.js';
import type { Answer, Release } from './answer-collector.js';
import { AnswerJudge } from './answer-judge.js';
import { AtOnce } from './at-once.js';
import { BodyRoom, bodyBytesOf } from './body-room.js';
import { checkObjectShape } from './body-shape.js';
import { type Allowance, accountOf, type Budget, type BudgetShare } from './budget.js';
import { MalformedBodyError } from './errors.js';
import { ExchangeFailure } from './exchange-failure.js';
import { DeprecationNotices } from './notices.js';
import { openTokenSource } from './open-token-source.js';
import { type Operation, type RequestMeter, requestTarget } from './operation.js';
import { RequestHeaders } from './request-headers.js';
import { Retrier } from './retrier.js';
import { failureSetback, type Setback } from './setback.js';
import type { TokenSource } from './token-source.js';
import { Transport, type WireRequest } from './transport.js';

export { bodyBytesOf } from './body-room.js';
export { MalformedBodyError, ServiceError } from './errors.js';
export type { Operation, RequestMeter } from './operation.js';

export interface ServiceClientOptions {
  readonly service: ServiceOptions;
  readonly clock: Clock;
  /** Returns numbers from 0 to 1, 1 excluded, for the jitter of retries. */
  readonly random?: () => number;
  /** Called once for each deprecation that the service announces, and for each long wait that it asks for. */
  readonly onNotice?: (notice: string) => void;
  /** The same for all clients that send under one limit. The client leaves it open. */
  readonly budget: Budget;
  /** The memory for bodies that are read or wait to be used; by default that of `memory_mb: 768`. */
  readonly bodyBytes?: number;
}

/** The parts of an answer that a decoder gets besides its body. */
export interface AnswerHead extends Pick<Answer, 'status' | 'headers'> {
  /**
   * Keeps the body counted against the memory for bodies; without it, it counts until the decoder has returned.
   * @returns a function that ends that; see {@link Release}
   */
  keep(): Release;
}

/** Makes a value of a whole body. If it throws a {@link MalformedBodyError} or a SyntaxError, the client asks again. */
export type Decode<T> = (body: Buffer, answer: AnswerHead) => T;

export interface SendOptions {
  readonly signal: AbortSignal;
  readonly meter: RequestMeter;
}

/** One call of {@link ServiceClient.send}, over all its attempts. */
interface Errand<T> extends SendOptions {
  readonly operation: Operation;
  readonly decode: Decode<T>;
  readonly target: string;
  readonly body: string | null;
  readonly version: string | null;
  readonly allowance: Allowance;
  /** Whether the token was renewed after a 401; that happens once a call. */
  renewed: boolean;
}

/**
 * The client of one service and tenant. Every request of cdsync goes through {@link ServiceClient.send}, which keeps to the
 * budget of its group, adds a valid token, and retries if that may help. Safe for any number of calls at once.
 */
export class ServiceClient {
  readonly #service: ServiceOptions;
  readonly #transport: Transport;
  /** To the token endpoint, which may be on a host of its own. */
  readonly #oauthTransport: Transport;
  readonly #tokens: TokenSource;
  readonly #headers: RequestHeaders;
  readonly #budget: Budget;
  readonly #allowances = new Map<ApiGroup, Allowance>();
  readonly #atOnce = new Map<ApiGroup, AtOnce>();
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  /** For each caller's signal, one that also aborts when the client closes; callers share few signals. */
  readonly #signals = new WeakMap<AbortSignal, AbortSignal>();
  readonly #retrier: Retrier;
  readonly #judge: AnswerJudge;
  readonly #notices: DeprecationNotices;
  readonly #room: BodyRoom;

  constructor({ service, clock, random = Math.random, onNotice, budget, bodyBytes }: ServiceClientOptions) {
    const userAgent = `cdsync/${packageVersion()}`;
    this.#service = service;
    this.#clock = clock;
    this.#room = new BodyRoom(bodyBytes ?? bodyBytesOf(768));
    this.#transport = new Transport(service, this.#room);
    this.#oauthTransport = oauthTransport(service, this.#transport, this.#room);
    const tell = onNotice ?? (() => undefined);
    this.#retrier = new Retrier(service.retry, clock, random, tell);
    this.#tokens = openTokenSource({
      service,
      clock,
      userAgent,
      transport: this.#oauthTransport,
      retrier: this.#retrier,
    });
    this.#headers = new RequestHeaders(service, userAgent);
    this.#budget = budget;
    this.#judge = new AnswerJudge(service.auth.type, this.#tokens, clock);
    this.#notices = new DeprecationNotices(tell);
  }

  /**
   * Sends a request and decodes its answer. `decode` gets the whole body of an answer of status 200 to 299, decompressed, and
   * owns it. If it refuses the body as malformed, the client asks again.
   * @throws {ServiceError} if the request was refused or failed for good
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts; `token_unusable`; any other error of `decode`
   */
  async send<T>(operation: Operation, decode: Decode<T>, options: SendOptions): Promise<T> {
    const { meter } = options;
    const signal = this.#untilClosed(options.signal);
    const errand: Errand<T> = {
      operation,
      decode,
      signal,
      meter,
      target: requestTarget(operation),
      body: operation.json ?? (operation.body === undefined ? null : JSON.stringify(operation.body)),
      version: this.#headers.versionOf(operation),
      allowance: this.#allowance(operation.group),
      renewed: false,
    };
    return this.#retrier.run(
      () => this.#attempt(errand),
      signal,
      () => {
        meter.retries += 1;
      },
    );
  }

  /** How the limit of a group is shared at present; undefined before the first request to it. */
  share(group: ApiGroup): BudgetShare | undefined {
    const allowance = this.#allowances.get(group);
    if (allowance === undefined) return undefined;
    const part = Math.min(1, allowance.effectiveLimit / this.#service.rateLimits[group]);
    return { part, otherProcesses: allowance.otherProcesses ?? 0 };
  }

  /** How many requests of a group should be under way at once. Callers that send several keep to it. */
  atOnce(group: ApiGroup): AtOnce {
    let found = this.#atOnce.get(group);
    if (found === undefined) {
      const { concurrency } = this.#service;
      const limit = () => this.#allowance(group).effectiveLimit;
      found = new AtOnce({ limit, concurrency, bodyBytes: this.#room.bytes });
      this.#atOnce.set(group, found);
    }
    return found;
  }

  /** Ends all connections; every request that is under way or waits ends as `interrupted`. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#tokens.close();
    await this.#oauthTransport.close();
    if (this.#oauthTransport !== this.#transport) await this.#transport.close();
  }

  #untilClosed(signal: AbortSignal): AbortSignal {
    let either = this.#signals.get(signal);
    if (either === undefined) {
      either = AbortSignal.any([signal, this.#closing.signal]);
      this.#signals.set(signal, either);
    }
    return either;
  }

  #allowance(group: ApiGroup): Allowance {
    let allowance = this.#allowances.get(group);
    if (allowance === undefined) {
      allowance = this.#budget.allowance(accountOf(this.#service, group), this.#service.rateLimits[group]);
      this.#allowances.set(group, allowance);
    }
    return allowance;
  }

  async #attempt<T>(errand: Errand<T>): Promise<T> {
    const { signal, meter, allowance } = errand;
    // While bodies wait for memory, another request would only hold its connection.
    for (let calm = this.#room.calm; calm !== undefined; calm = this.#room.calm) await abortable(calm, signal);
    const permit = await allowance.acquire(signal);
    let sent = false;
    let sentAt = 0;
    let token = '';
    let answer: Answer;
    try {
      token = this.#tokens.current() ?? (await this.#tokens.obtain(signal));
      answer = await this.#transport.exchange(this.#wireRequest(errand, token), signal, {
        onSent: () => {
          sent = true;
          sentAt = this.#clock.monotonic();
          meter.requests += 1;
        },
        onAnswer: () => permit.answered(),
      });
    } catch (error) {
      if (sent) permit.failed();
      else permit.cancelled();
      if (error instanceof ExchangeFailure) throw this.#failure(error, errand.operation, sent);
      throw error;
    }
    meter.bytes += answer.body.length;
    this.#notices.notice(errand.operation.group, errand.version, answer.headers);
    if (answer.status < 200 || answer.status > 299) {
      answer.release();
      throw await this.#refusal(errand, answer, token);
    }
    this.atOnce(errand.operation.group).answered(this.#clock.monotonic() - sentAt, answer.body.length);
    return this.#decode(errand, answer);
  }

  #wireRequest({ operation, target, body, version }: Errand<unknown>, token: string): WireRequest {
    const headers = this.#headers.list(version, body !== null, token);
    return { method: operation.method, target, headers, body };
  }

  #failure(failure: ExchangeFailure, operation: Operation, sent: boolean): Error {
    const { host, reached } = this.#transport;
    return failureSetback(failure, {
      label: operation.label,
      host,
      sent,
      idempotent: isIdempotent(operation),
      reached,
    });
  }

  /** The setback for an answer that is not a success; the allowance and the token source learn of it too. */
  async #refusal<T>(errand: Errand<T>, answer: Answer, token: string): Promise<Setback> {
    const { operation, allowance, meter, signal } = errand;
    const setback = this.#judge.refusal(operation, answer, isIdempotent(operation));
    if (answer.status === 429) {
      meter.throttled += 1;
      allowance.throttled(setback.again === 'never' ? 0 : setback.waitMs);
    } else if (setback.again !== 'never' && setback.waitMs > 0) {
      allowance.pause(setback.waitMs);
    }
    if (answer.status !== 401 || errand.renewed) return setback;
    errand.renewed = true;
    return (await this.#tokens.renew(token, signal)) ? setback.andAgain('at_once') : setback;
  }

  #decode<T>({ operation, decode }: Errand<T>, answer: Answer): T {
    const { status, headers, body, release } = answer;
    let isKept = false;
    const keep = () => {
      isKept = true;
      return release;
    };
    try {
      if (operation.method === 'GET' || body.length > 0) checkObjectShape(body);
      const decoded = decode(body, { status, headers, keep });
      this.#judge.understood();
      if (!isKept) release();
      return decoded;
    } catch (error) {
      release();
      if (!(error instanceof MalformedBodyError || error instanceof SyntaxError)) throw error;
      throw this.#judge.malformed(operation, answer, error, isIdempotent(operation));
    }
  }
}

function oauthTransport(service: ServiceOptions, usual: Transport, room: BodyRoom): Transport {
  const { oauthTokenUrl } = service;
  if (oauthTokenUrl === undefined) return usual;
  return new Transport({ ...service, baseUrl: new URL(oauthTokenUrl).origin, concurrency: 1 }, room);
}

function isIdempotent({ method, idempotent }: Operation): boolean {
  return idempotent ?? method === 'GET';
}

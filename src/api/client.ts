import type { Clock } from '../core/clock.js';
import type { Deprecation } from '../core/deprecation.js';
import { interrupted } from '../core/errors.js';
import { abortable, sleepUntilAborted } from '../core/on-abort.js';
import { packageVersion } from '../core/package-version.js';
import type { ApiGroup, ServiceOptions } from '../core/service-options.js';
import type { Budget, LimitShare } from '../rate-limit/budget.js';
import type { ConcurrencyController } from '../rate-limit/concurrency.js';
import { ApiGroups } from './api-groups.js';
import { BodyMemory } from './body-memory.js';
import { Deprecations } from './deprecations.js';
import { openTokenSource } from './oauth-token.js';
import type { OutageView } from './outage.js';
import type { PendingRequest, SendOptions, SendPermission } from './pending-request.js';
import { isIdempotent, isRead, type Operation, PathSpellings, RequestHeaders, requestTarget } from './request.js';
import type { ResponseBody } from './response-body.js';
import { ResponseCheck, requireJsonObject, requireUtf8 } from './response-check.js';
import type { ServiceResponse } from './response-reader.js';
import { AttemptFailure, failedExchange, RequestAttempts, RetryAfterNotices } from './retry.js';
import { MalformedBodyError } from './service-error.js';
import type { TokenSource } from './token-source.js';
import { oauthTransport, Transport, type WireRequest } from './transport.js';
import { TransportError, WithheldError } from './transport-error.js';

export type { SendOptions } from './pending-request.js';
export type { Operation, RequestCounts } from './request.js';
export { RequestAttempts } from './retry.js';
export { MalformedBodyError, ServiceError } from './service-error.js';

export interface ServiceClientOptions {
  readonly service: ServiceOptions;
  readonly clock: Clock;
  /** Returns numbers from 0 to 1, 1 excluded, for the jitter of retries. */
  readonly random?: () => number;
  /** Called once for each deprecation that the service announces, and for each long wait that it asks for. */
  readonly onNotice?: (notice: string) => void;
  /** The same for all clients that send under one limit. The client leaves it open. */
  readonly budget: Budget;
  /** The longest patience, for commands whose user waits; the configuration may have less. */
  readonly maxPatienceMs?: number | undefined;
  /** The memory for bodies that are read or wait to be used; by default that of `memory_mb: 768`. */
  readonly bodyBytes?: number;
}

/** Makes a value of a whole body. If it throws a {@link MalformedBodyError} or a SyntaxError, the client sends the request again. */
export type Decode<T> = (body: Buffer, head: Pick<ServiceResponse, 'status' | 'headers'>) => T;

/** The mean pause before a second new token is asked for: keys may be changing. */
const tokenPauseMs = 2_000;
/** New tokens for one request after refused ones. */
const maxNewTokens = 2;

/**
 * The client of one service and tenant. Every request of cdsync goes through {@link ServiceClient.send}, which keeps to the
 * budget of its group, adds a valid token, and retries if that may help. Safe for any number of calls at once.
 */
export class ServiceClient {
  readonly #transport: Transport;
  /** To the token endpoint, which may be on its own host. */
  readonly #oauthTransport: Transport;
  readonly #tokens: TokenSource;
  readonly #headers: RequestHeaders;
  readonly #groups: ApiGroups;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  /** For each caller's signal, one that also aborts when the client closes; callers share few signals. */
  readonly #signals = new WeakMap<AbortSignal, AbortSignal>();
  readonly #retry: ServiceOptions['retry'];
  readonly #random: () => number;
  readonly #waitNotices: RetryAfterNotices;
  readonly #check: ResponseCheck;
  readonly #deprecations: Deprecations;
  readonly #spellings: PathSpellings;
  readonly #memory: BodyMemory;
  #date: { readonly text: string | string[]; readonly aheadMs: number } | undefined;

  constructor(options: ServiceClientOptions) {
    const { service, clock, random = Math.random, onNotice, budget, bodyBytes = 192_000_000 } = options;
    const userAgent = `cdsync/${packageVersion()}`;
    this.#clock = clock;
    this.#memory = new BodyMemory(bodyBytes);
    this.#transport = new Transport(service, this.#memory);
    this.#oauthTransport = oauthTransport(service, this.#transport, this.#memory);
    const notice = onNotice ?? (() => undefined);
    const patienceMs = Math.min(service.retry.patienceMs, options.maxPatienceMs ?? Number.POSITIVE_INFINITY);
    this.#retry = { ...service.retry, patienceMs };
    this.#random = random;
    this.#waitNotices = new RetryAfterNotices(notice, clock);
    this.#tokens = openTokenSource({ service, clock, userAgent, transport: this.#oauthTransport });
    this.#headers = new RequestHeaders(service, userAgent);
    const { bytes } = this.#memory;
    this.#groups = new ApiGroups({ service, retry: this.#retry, clock, random, budget, bodyBytes: bytes, notice });
    this.#check = new ResponseCheck(service.auth.type, this.#tokens, clock);
    this.#deprecations = new Deprecations(notice);
    this.#spellings = new PathSpellings(service.baseUrl);
  }

  /** Gives back the memory that bodies were read into: few responses follow. */
  freeBuffers(): void {
    this.#memory.pool.free();
  }

  /** How far this machine's clock is ahead of the service's, by the last response with another date. */
  get aheadMs(): number | undefined {
    return this.#date?.aheadMs;
  }

  #noteDate(text: string | string[] | undefined): void {
    if (text === undefined || text === this.#date?.text) return;
    const ms = Date.parse(String(text));
    if (!Number.isNaN(ms)) this.#date = { text, aheadMs: this.#clock.now() - ms };
  }

  /**
   * Sends a request and decodes its response. `decode` gets the whole body of a response of status 200 to 299, decompressed. If it
   * rejects the body as malformed, the client sends the request again.
   * @throws {ServiceError} if the request was refused or failed for good
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts; `token_unusable`; any other error of `decode`
   */
  send<T>(operation: Operation, decode: Decode<T>, options: SendOptions): Promise<T> {
    const take = (response: ServiceResponse) => {
      const decoded = decode(response.body.bytes, response);
      response.body.dispose();
      return decoded;
    };
    return this.#send(operation, take, options);
  }

  /**
   * The same for a page whose bytes are used after `cut`: the caller owns the returned `response`, and must dispose of it.
   * @throws as {@link send}
   */
  sendPage<T>(
    operation: Operation,
    cut: (body: Buffer) => T,
    options: SendOptions,
  ): Promise<T & { readonly response: ResponseBody }> {
    return this.#send(operation, ({ body }) => ({ ...cut(body.bytes), response: body }), options);
  }

  async #send<T>(operation: Operation, take: PendingRequest<T>['take'], options: SendOptions): Promise<T> {
    const { meter } = options;
    const signal = this.#untilClosed(options.signal);
    const pending: PendingRequest<T> = {
      ...options,
      operation,
      take,
      signal,
      target: requestTarget(this.#spellings.spelled(operation)),
      body: operation.json ?? (operation.body === undefined ? null : JSON.stringify(operation.body)),
      version: this.#headers.versionOf(operation),
      limiter: this.#groups.limiter(operation.group),
      respelled: false,
      attempts: options.attempts ?? new RequestAttempts(),
      availability: this.#groups.availability(operation.group),
      concurrency: this.concurrency(operation.group),
      refusedTokens: 0,
    };
    try {
      for (;;) {
        const delay = await this.#try(pending);
        if ('value' in delay) return delay.value;
        if (signal.aborted) throw interrupted(signal.reason);
        meter.retries += 1;
        if (delay.ms > 0) await sleepUntilAborted(this.#clock, delay.ms, signal);
      }
    } finally {
      pending.availability.releaseProbe(pending.attempts);
    }
  }

  /** One attempt: its result, or how long to wait before the next one. */
  async #try<T>(pending: PendingRequest<T>): Promise<{ readonly value: T } | { readonly ms: number }> {
    const { availability, attempts } = pending;
    for (;;) {
      const clearance = await this.#enter(pending);
      if ('failure' in clearance) return { ms: this.#failed(pending, clearance.failure) };
      try {
        const value = await this.#attempt(pending, clearance);
        availability.succeeded();
        return { value };
      } catch (thrown) {
        if (thrown instanceof AttemptFailure) return { ms: this.#failed(pending, thrown) };
        availability.attemptAbandoned(attempts);
        // Its permit has lapsed: it asks for another one.
        if (!(thrown instanceof WithheldError)) throw thrown;
      } finally {
        clearance.leave();
      }
    }
  }

  #failed({ availability, attempts }: PendingRequest<unknown>, failure: AttemptFailure): number {
    const ms = availability.failed(attempts, failure);
    if (failure.again === 'when_allowed') this.#waitNotices.begins(failure.waitMs, 429);
    return ms;
  }

  /**
   * Waits until the request may be sent: no outage, not too many under way, then what {@link ServiceClient.#cleared} waits for. If an outage begins while it
   * waits for one of them, it begins again.
   */
  async #enter(pending: PendingRequest<unknown>): Promise<SendPermission | { readonly failure: AttemptFailure }> {
    const { availability, attempts, concurrency, signal } = pending;
    for (;;) {
      await availability.waitUntilAvailable(attempts, signal);
      await concurrency.acquire(signal);
      let isSent = false;
      try {
        const cleared = await this.#cleared(pending);
        if (cleared === undefined) continue;
        if ('failure' in cleared) return cleared;
        isSent = true;
        return { ...cleared, leave: () => concurrency.release() };
      } finally {
        if (!isSent) concurrency.release();
      }
    }
  }

  /** Waits for memory for the body, a permit and a token. @returns undefined if an outage has begun: then the permit is given back */
  async #cleared(
    pending: PendingRequest<unknown>,
  ): Promise<Pick<SendPermission, 'permit' | 'token'> | { readonly failure: AttemptFailure } | undefined> {
    const { availability, attempts, limiter, signal } = pending;
    // While bodies wait for memory, another request would only hold its connection.
    for (let calm = this.#memory.whenMemoryIsFree; calm !== undefined; calm = this.#memory.whenMemoryIsFree)
      await abortable(calm, signal);
    if (availability.mustWait(attempts)) return undefined;
    const permit = await limiter.acquire(signal);
    let isCleared = false;
    try {
      if (availability.mustWait(attempts)) return undefined;
      availability.attemptStarted(attempts);
      const token = await this.#token(pending);
      if (token instanceof AttemptFailure) return { failure: token };
      isCleared = !availability.mustWait(attempts);
      if (isCleared) return { permit, token };
      availability.attemptAbandoned(attempts);
      return undefined;
    } finally {
      if (!isCleared) permit.cancelled();
    }
  }

  /** In bytes. What reads a page needs several times its memory: of a larger one, fewer records are better. */
  get maxPageBytes(): number {
    return this.#memory.most / 4;
  }

  /** The groups that do not respond at present. */
  outages(): OutageView[] {
    return this.#groups.outages();
  }

  /** The ends of API versions that the service has announced so far. */
  get deprecations(): Deprecation[] {
    return this.#deprecations.all;
  }

  /** How the limit of a group is shared at present; undefined before the first request to it. */
  share(group: ApiGroup): LimitShare | undefined {
    return this.#groups.share(group);
  }

  /** How many requests of a group should be under way at once. Callers that send several keep to it. */
  concurrency(group: ApiGroup): ConcurrencyController {
    return this.#groups.concurrency(group);
  }

  /** Ends all connections; every request that is under way or waits ends as `interrupted`. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#groups.close();
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

  /** The token to send; a failure if the token endpoint failed, which counts as a failure of the request. */
  async #token({ signal, availability, attempts }: PendingRequest<unknown>): Promise<string | AttemptFailure> {
    const ready = this.#tokens.current();
    if (ready !== undefined) return ready;
    try {
      return await this.#tokens.obtain(signal);
    } catch (error) {
      if (error instanceof AttemptFailure) return error;
      availability.attemptAbandoned(attempts);
      throw error;
    }
  }

  async #attempt<T>(pending: PendingRequest<T>, { permit, token }: SendPermission): Promise<T> {
    const { meter, availability, attempts } = pending;
    const signal = availability.probeSignal(attempts, pending.signal);
    let sent = false;
    let sentAt = 0;
    let response: ServiceResponse;
    try {
      response = await this.#transport.exchange(this.#wireRequest(pending, token), signal, {
        maySend: () => permit.isLapsed !== true,
        onSent: () => {
          sent = true;
          sentAt = this.#clock.monotonic();
          meter.requests += 1;
        },
        onResponse: () => permit.answered(),
      });
    } catch (error) {
      if (sent) permit.failed();
      else permit.cancelled();
      pending.refusedTokens = 0;
      if (error instanceof TransportError) throw this.#failure(error, pending.operation, sent);
      if (!pending.signal.aborted && signal.aborted)
        throw this.#failure(new TransportError('first_byte_timeout', error), pending.operation, sent);
      throw error;
    }
    meter.bytes += response.body.bytes.length;
    this.#deprecations.notice(pending.operation.group, pending.version, response.headers);
    this.#noteDate(response.headers.date);
    if (response.status < 200 || response.status > 299) {
      response.body.dispose();
      throw await this.#refusal(pending, response, token);
    }
    pending.concurrency.answered(this.#clock.monotonic() - sentAt, response.body.bytes.length);
    return this.#decode(pending, response);
  }

  #wireRequest({ operation, target, body, version }: PendingRequest<unknown>, token: string): WireRequest {
    const headers = this.#headers.list(version, body !== null, token);
    return { method: operation.method, target, headers, body };
  }

  #failure(failure: TransportError, operation: Operation, sent: boolean): Error {
    const { host } = this.#transport;
    return failedExchange(failure, { label: operation.label, host, sent, idempotent: isIdempotent(operation) });
  }

  /** The failure for a response that is not a success; the limiter and the token source learn of it too. */
  async #refusal<T>(pending: PendingRequest<T>, response: ServiceResponse, token: string): Promise<AttemptFailure> {
    const { operation, limiter, meter, signal } = pending;
    const failure = this.#check.refusal(operation, response, isIdempotent(operation));
    if (!pending.respelled && this.#spellings.learn(operation, pending.target, response)) {
      pending.respelled = true;
      pending.target = requestTarget(this.#spellings.spelled(operation));
      return failure.andAgain('at_once');
    }
    if (response.status === 429) {
      meter.throttled += 1;
      limiter.throttled(failure.waitMs > this.#retry.patienceMs ? 0 : failure.waitMs);
    }
    if (response.status !== 401) {
      pending.refusedTokens = 0;
      // One that asks to wait is about the service.
      const isOwn = failure.waitMs === 0 && pending.ownFailures?.has(response.status);
      return pending.isOptional || isOwn ? failure.ofOptional(pending.attempts.count) : failure;
    }
    pending.refusedTokens += 1;
    if (pending.refusedTokens > maxNewTokens) return failure;
    if (pending.refusedTokens === maxNewTokens)
      await sleepUntilAborted(this.#clock, tokenPauseMs * (0.5 + this.#random()), signal);
    return (await this.#tokens.renew(token, signal)) ? failure.andAgain('at_once') : failure;
  }

  #decode<T>({ operation, take }: PendingRequest<T>, response: ServiceResponse): T {
    const { body } = response;
    try {
      if (isRead(operation) && response.status !== 200) throw new MalformedBodyError('its status is not 200');
      const isEmpty = body.bytes.length === 0 && operation.method === 'POST';
      if (!operation.returnsNothing && !isEmpty) {
        requireUtf8(body.bytes, response.headers['content-type']);
        requireJsonObject(body.bytes);
      }
      const taken = take(response);
      this.#check.understood();
      return taken;
    } catch (error) {
      body.dispose();
      if (!(error instanceof MalformedBodyError || error instanceof SyntaxError)) throw error;
      throw this.#check.malformed(operation, response, error, isIdempotent(operation));
    }
  }
}

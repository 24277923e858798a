import { abortAfter, type Clock } from '../core/clock.js';
import { interrupted } from '../core/errors.js';
import { onAbort } from '../core/on-abort.js';
import { Outage, type OutageView, outageError, singleError } from './outage.js';
import {
  type AttemptFailure,
  connectPatienceMs,
  maxUnreadable,
  type RequestAttempts,
  type RetryOptions,
  singlePauseMs,
} from './retry.js';

/** This many failures in a row are an outage, however many requests are under way. */
const maxConsecutive = 4;
/** Shorter outages than this share of the patience do not count as flapping: a request fails now and then. */
const briefShare = 1 / 30;

/** Whether any request of a client has ever succeeded; its API groups share it. */
export interface Contact {
  made: boolean;
}

interface AvailabilityOptions extends RetryOptions {
  /** What messages call the API group. */
  readonly name: string;
  readonly clock: Clock;
  readonly random: () => number;
  readonly contact: Contact;
  readonly notice: (text: string) => void;
  /** The service responds again. */
  readonly onEnd: () => void;
  /** In an outage, the service asks to wait. */
  readonly onAsked: (ms: number) => void;
}

interface Waiting {
  readonly attempts: RequestAttempts;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface AttemptEnd {
  /** Attempts that were under way when this one ended, itself included. */
  readonly underWay: number;
  readonly nowMs: number;
}

/**
 * Whether an API group of the service responds. All requests of the group share it:
 *
 * - *up*: requests are sent. One that fails while others succeed is tried again after growing pauses, alone.
 * - *outage*: it begins when as many requests in a row have failed as are under way, at most four. Then one request at a time
 *   is sent, after growing pauses, and all others wait. The first success ends it.
 * - *spent*: the outage has lasted for `patience`, or half of twice that time was outage. All who wait get an error; a later
 *   request is sent once.
 */
export class Availability {
  readonly #options: AvailabilityOptions;
  readonly #waiting = new Set<Waiting>();
  #underWay = 0;
  #succeededAt = Number.NEGATIVE_INFINITY;
  /** Failures since the last success, and when the first of these requests was sent. */
  #row = 0;
  #rowBeganAt = 0;
  #outage: Outage | undefined;
  #prober: RequestAttempts | undefined;
  #timer: AbortController | undefined;
  /** The outages that are over, as far back as they matter for flapping. */
  #over: { readonly from: number; readonly to: number }[] = [];
  #overMs = 0;

  constructor(options: AvailabilityOptions) {
    this.#options = options;
  }

  /** The present outage, for a display. */
  get outage(): OutageView | undefined {
    return this.#outage?.isShown ? this.#outage.view(this.#now) : undefined;
  }

  /** Whether a request must wait although it has passed: an outage has begun since. */
  mustWait(attempts: RequestAttempts): boolean {
    return this.#outage !== undefined && this.#prober !== attempts;
  }

  /** The signal of a request. One that probes also ends together with the patience. */
  probeSignal(attempts: RequestAttempts, signal: AbortSignal): AbortSignal {
    const outage = this.#outage;
    if (outage === undefined || this.#prober !== attempts) return signal;
    const ms = Math.max(1_000, this.#remainingPatienceMs(outage, this.#now));
    return AbortSignal.any([signal, abortAfter(ms)]);
  }

  /**
   * Waits until a request may be sent: during an outage, until it is its turn to probe or the service responds again.
   * @throws {ServiceError} `service_unavailable` if the patience is spent
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts
   */
  waitUntilAvailable(attempts: RequestAttempts, signal: AbortSignal): Promise<void> | undefined {
    if (signal.aborted) throw interrupted(signal.reason);
    if (!this.mustWait(attempts)) return undefined;
    let release = () => {};
    return new Promise<void>((resolve, reject) => {
      const waiting: Waiting = { attempts, resolve, reject };
      release = onAbort(signal, () => {
        this.#waiting.delete(waiting);
        if (this.#waiting.size === 0) this.#stopTimer();
        reject(interrupted(signal.reason));
      });
      this.#waiting.add(waiting);
      this.#arm();
    }).finally(() => release());
  }

  /** An attempt begins. Call {@link succeeded}, {@link failed} or {@link attemptAbandoned} when it ends. */
  attemptStarted(attempts: RequestAttempts): void {
    attempts.begin(this.#now);
    this.#underWay += 1;
  }

  succeeded(): void {
    this.#underWay -= 1;
    this.#options.contact.made = true;
    this.#alive();
  }

  /** The attempt ended without a result, for example because of an interruption. */
  attemptAbandoned(attempts: RequestAttempts): void {
    this.#underWay -= 1;
    this.releaseProbe(attempts);
  }

  /** The request will not be sent again: another one probes in its place. */
  releaseProbe(attempts: RequestAttempts): void {
    if (this.#prober !== attempts) return;
    this.#prober = undefined;
    this.#arm();
  }

  /**
   * The attempt failed.
   * @returns milliseconds to wait before {@link waitUntilAvailable}
   * @throws the error of the request if it has failed for good
   */
  failed(attempts: RequestAttempts, failure: AttemptFailure): number {
    const end: AttemptEnd = { underWay: this.#underWay, nowMs: this.#now };
    this.#underWay -= 1;
    if (failure.shows === 'alive') this.#alive();
    if (failure.again === 'at_once') return 0;
    if (failure.again === 'never') throw this.#finalError(attempts, failure, end);
    const isSign = this.#isSignOfOutage(attempts);
    this.#noteFirstFailure(attempts, end.nowMs);
    if (isSign) this.#noteSign(attempts, failure, end);
    const outage = this.#outage;
    if (outage === undefined) return this.#singleRequestDelay(attempts, failure, end.nowMs);
    if (outage.spent !== undefined) throw outage.spent();
    return 0;
  }

  /** A request that had failed before the last success is not a sign that an outage begins. */
  #isSignOfOutage({ failedAt }: RequestAttempts): boolean {
    return this.#outage !== undefined || failedAt === undefined || failedAt >= this.#succeededAt;
  }

  #finalError(attempts: RequestAttempts, failure: AttemptFailure, end: AttemptEnd): Error {
    if (failure.shows === 'away') this.#noteSign(attempts, failure, end);
    this.releaseProbe(attempts);
    return failure.toError(attempts.count);
  }

  #noteFirstFailure(attempts: RequestAttempts, nowMs: number): void {
    if (attempts.failedAt !== undefined) return;
    attempts.failedAt = attempts.lastAttemptAt;
    attempts.outageMs = this.#outageMs(nowMs);
  }

  close(): void {
    this.#stopTimer();
    this.#outage?.close();
  }

  get #now(): number {
    return this.#options.clock.monotonic();
  }

  #alive(): void {
    const nowMs = this.#now;
    this.#succeededAt = nowMs;
    this.#row = 0;
    const outage = this.#outage;
    if (outage === undefined) return;
    this.#outage = undefined;
    this.#prober = undefined;
    this.#stopTimer();
    outage.end(nowMs);
    this.#over.push({ from: outage.since, to: nowMs });
    this.#overMs += nowMs - outage.since;
    this.#options.onEnd();
    const all = [...this.#waiting];
    this.#waiting.clear();
    for (const { resolve } of all) resolve();
  }

  /** Counts a failure as a sign that an outage lasts, or, with enough of them in a row, that one begins. */
  #noteSign(attempts: RequestAttempts, failure: AttemptFailure, end: AttemptEnd): void {
    if (this.#prober === attempts) this.#probeFailed(attempts, failure, end.nowMs);
    else if (failure.shows !== 'away') return;
    else if (this.#outage !== undefined) this.#outage.failed(failure, attempts.count);
    else this.#countInRow(attempts, failure, end);
  }

  #countInRow(attempts: RequestAttempts, failure: AttemptFailure, { underWay, nowMs }: AttemptEnd): void {
    this.#rowBeganAt = this.#row === 0 ? attempts.lastAttemptAt : Math.min(this.#rowBeganAt, attempts.lastAttemptAt);
    this.#row += 1;
    if (this.#row < Math.min(maxConsecutive, underWay)) return;
    const { name, clock, notice } = this.#options;
    const since = Math.max(this.#succeededAt, this.#rowBeganAt);
    this.#outage = new Outage({ name, clock, notice, since, requests: this.#row - 1 });
    this.#outage.failed(failure, attempts.count);
    this.#pause(this.#outage, failure, nowMs);
  }

  #probeFailed(attempts: RequestAttempts, failure: AttemptFailure, nowMs: number): void {
    const outage = this.#outage;
    if (outage === undefined) return;
    this.#prober = undefined;
    attempts.probedAt = nowMs;
    outage.failed(failure, attempts.count);
    this.#pause(outage, failure, nowMs);
  }

  /** Sets the time of the next probe, or ends the waiting if the patience is spent. */
  #pause(outage: Outage, failure: AttemptFailure, nowMs: number): void {
    const left = this.#remainingPatienceMs(outage, nowMs);
    const pause = outage.nextPause(this.#options, failure.waitMs);
    if (left <= 0 || failure.waitMs > left) {
      outage.nextAt = nowMs + pause;
      this.#spend(outage, nowMs, left);
      return;
    }
    outage.nextAt = nowMs + Math.min(pause, left);
    if (failure.waitMs > 0) this.#options.onAsked(failure.waitMs);
    outage.waits(left, failure);
    this.#arm();
  }

  /** Each gets its own error, because the engine notes in it whose it is. */
  #spend(outage: Outage, nowMs: number, leftMs: number): void {
    const all = [...this.#waiting];
    this.#waiting.clear();
    this.#stopTimer();
    const awayMs = this.#awayWithin(2 * this.#options.patienceMs, nowMs);
    const end = { awayMs, leftMs, wasReached: this.#options.contact.made, name: this.#options.name };
    outage.spent = () => outageError(outage, { ...end, now: nowMs, timeOfDay: this.#options.clock.now() });
    for (const { reject } of all) reject(outage.spent());
  }

  /** The rest of the patience. */
  #remainingPatienceMs(outage: Outage, nowMs: number): number {
    const { patienceMs, contact } = this.#options;
    const most = !contact.made && outage.last?.isUnconnected ? Math.min(connectPatienceMs, patienceMs) : patienceMs;
    return Math.min(most - (nowMs - outage.since), patienceMs - this.#awayWithin(2 * patienceMs, nowMs));
  }

  /** Milliseconds of outage in the last `windowMs`. Brief ones do not count. */
  #awayWithin(windowMs: number, nowMs: number): number {
    const from = nowMs - windowMs;
    this.#over = this.#over.filter(({ to }) => to > from);
    const brief = this.#options.patienceMs * briefShare;
    const outages = this.#outage === undefined ? this.#over : [...this.#over, { from: this.#outage.since, to: nowMs }];
    return outages
      .filter((outage) => outage.to - outage.from >= brief)
      .reduce((sum, outage) => sum + outage.to - Math.max(from, outage.from), 0);
  }

  #outageMs(nowMs: number): number {
    return this.#overMs + (this.#outage === undefined ? 0 : nowMs - this.#outage.since);
  }

  #singleRequestDelay(attempts: RequestAttempts, failure: AttemptFailure, nowMs: number): number {
    const { patienceMs, contact } = this.#options;
    const most = !contact.made && failure.isUnconnected ? Math.min(connectPatienceMs, patienceMs) : patienceMs;
    const sinceMs = nowMs - (attempts.failedAt ?? nowMs);
    const left = most - (sinceMs - (this.#outageMs(nowMs) - attempts.outageMs));
    const isUnreadable = failure.isUnreadable && attempts.count >= maxUnreadable;
    if (left <= 0 || failure.waitMs > left || isUnreadable)
      throw singleError(failure, attempts, { sinceMs, leftMs: left, timeOfDay: this.#options.clock.now() });
    return Math.max(failure.waitMs, Math.min(left, singlePauseMs(attempts.count, this.#options)));
  }

  /** Starts the timer of the next probe, if requests wait and none probes. */
  #arm(): void {
    const outage = this.#outage;
    if (outage === undefined || this.#prober !== undefined || this.#timer !== undefined || this.#waiting.size === 0)
      return;
    const wait = outage.nextAt - this.#now;
    if (wait <= 0) {
      this.#probe();
      return;
    }
    const timer = new AbortController();
    this.#timer = timer;
    this.#options.clock.sleep(wait, timer.signal).then(
      () => {
        if (this.#timer !== timer) return;
        this.#timer = undefined;
        if (this.#outage !== undefined && this.#prober === undefined) this.#probe();
      },
      () => undefined,
    );
  }

  #stopTimer(): void {
    this.#timer?.abort();
    this.#timer = undefined;
  }

  /** The request that failed first probes first; one that has probed waits for the others. */
  #probe(): void {
    let next: Waiting | undefined;
    for (const waiting of this.#waiting)
      if (next === undefined || isBefore(waiting.attempts, next.attempts)) next = waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    this.#prober = next.attempts;
    next.resolve();
  }
}

function isBefore(one: RequestAttempts, other: RequestAttempts): boolean {
  if (one.probedAt !== other.probedAt) return one.probedAt < other.probedAt;
  return (one.failedAt ?? Number.POSITIVE_INFINITY) < (other.failedAt ?? Number.POSITIVE_INFINITY);
}

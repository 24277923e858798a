import type { Clock } from '../core/clock.js';
import { interrupted } from '../core/errors.js';
import { onAbort } from '../core/on-abort.js';
import type { Permit, RateLimiter } from './budget.js';

/** A caller that waits for a permit. */
interface Waiter {
  readonly resolve: (permit: Permit) => void;
  readonly reject: (error: Error) => void;
}

/** First in, first out. Adding, taking and removing each take constant time, because one iterator passes each entry once. */
export class WaiterQueue<W> extends Set<W> {
  #order = this.values();

  take(): W | undefined {
    let next = this.#order.next();
    // An iterator that has been at the end stays there.
    if (next.done) {
      this.#order = this.values();
      next = this.#order.next();
    }
    if (!next.done) this.delete(next.value);
    return next.value;
  }
}

/** The times at which permits become free, in ascending order, in a ring that grows as needed. */
class ReleaseRing {
  #times = new Float64Array(64);
  #head = 0;
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** The time from which fewer than `count - n` are left: `nth(0)` is the earliest; infinite if there are fewer. */
  nth(n: number): number {
    if (n >= this.#count) return Number.POSITIVE_INFINITY;
    return this.#times[(this.#head + n) % this.#times.length] as number;
  }

  /** @param time not before any time added so far */
  push(time: number): void {
    if (this.#count === this.#times.length) this.#grow();
    const size = this.#times.length;
    const end = this.#head + this.#count;
    this.#times[end < size ? end : end - size] = time;
    this.#count += 1;
  }

  /** Removes all times up to and including `nowMs`. */
  dropUntil(nowMs: number): void {
    const times = this.#times;
    while (this.#count > 0 && (times[this.#head] as number) <= nowMs) {
      this.#head = this.#head + 1 === times.length ? 0 : this.#head + 1;
      this.#count -= 1;
    }
  }

  #grow(): void {
    const larger = new Float64Array(this.#times.length * 2);
    larger.set(this.#times.subarray(this.#head));
    larger.set(this.#times.subarray(0, this.#head), this.#times.length - this.#head);
    this.#times = larger;
    this.#head = 0;
  }
}

/**
 * How long a permit stays in use after the response began. The service counts a request at some moment between its sending
 * and its response, so one full second from the response is enough, and less is not. The extra millisecond covers services that
 * count both ends of the second or whole milliseconds, and clocks whose speeds differ by up to 0.1 %.
 */
export const permitWindowMs = 1_001;

/** How many permits may be in use; changes with time. */
export interface LimitSource {
  /** The number at `nowMs`, a whole number. Asked before each permit, so it must be quick. */
  at(nowMs: number): number;
  /**
   * Since when the right to these permits has not been interrupted; infinite if there is none at `nowMs`. A permit from before
   * must not be used. Without it, the right is never interrupted.
   */
  heldSince?(nowMs: number): number;
  /** When the number may become larger without a call of {@link SlidingWindowLimiter.wake}; else infinite. */
  readonly risesAt: number;
  /** A response has arrived, with any status. */
  answered(nowMs: number): void;
  /** That response was a 429. */
  refused(): void;
}

/**
 * Allows at most as many requests as its capacity in any sliding second, at whichever moment between sending and response the service
 * counts them (specification, section 8). A request holds a permit from before it is sent until a second after its response began.
 * So any two requests that the service counts within one second hold permits at the same moment. Since the service may count
 * a request anywhere in that span, no rule that gives permits back sooner keeps the promise.
 *
 * Permits are handed out as soon as they are free, without pacing; each costs constant time. One timer serves all waiters. No
 * timer runs without a waiter: it would keep the process alive.
 */
export class SlidingWindowLimiter implements RateLimiter {
  readonly #clock: Clock;
  readonly #capacity: LimitSource;
  readonly #cooling = new ReleaseRing();
  readonly #waiters = new WaiterQueue<Waiter>();
  #underWay = 0;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  /** When the one timer fires, and how to stop it. */
  #timer: { readonly at: number; readonly stop: AbortController } | undefined;

  constructor(capacity: LimitSource, clock: Clock) {
    this.#capacity = capacity;
    this.#clock = clock;
  }

  get effectiveLimit(): number {
    return this.#capacity.at(this.#clock.monotonic());
  }

  /** Permits in use: of requests under way, and of responses within the last second. */
  get used(): number {
    this.#cooling.dropUntil(this.#clock.monotonic());
    return this.#used;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  async acquire(signal: AbortSignal): Promise<Permit> {
    if (signal.aborted) throw interrupted(signal.reason);
    if (this.#waiters.size === 0 && this.#available(this.#clock.monotonic())) return this.#grant();
    return this.#wait(signal);
  }

  throttled(retryAfterMs = 0): void {
    this.#capacity.refused();
    this.pause(retryAfterMs);
  }

  pause(ms: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, this.#clock.monotonic() + ms);
  }

  /** All waiters get the error. */
  refuse(error: Error): void {
    for (const waiter of this.#waiters) waiter.reject(error);
    this.#waiters.clear();
    this.#stopTimer();
  }

  get #used(): number {
    return this.#underWay + this.#cooling.count;
  }

  /** Hands out the permits that the capacity allows: it may have become larger. */
  wake(): void {
    if (this.#waiters.size > 0) this.#serve();
  }

  #available(nowMs: number): boolean {
    this.#cooling.dropUntil(nowMs);
    return nowMs >= this.#pausedUntil && this.#used < this.#capacity.at(nowMs);
  }

  #grant(): Permit {
    this.#underWay += 1;
    return new HeldPermit(
      this.#clock.monotonic(),
      (grantedAt) => this.#hasLapsed(grantedAt),
      (end) => this.#giveBack(end),
    );
  }

  #hasLapsed(grantedAt: number): boolean {
    return grantedAt < (this.#capacity.heldSince?.(this.#clock.monotonic()) ?? grantedAt);
  }

  #giveBack(end: PermitEnd): void {
    const nowMs = this.#clock.monotonic();
    this.#underWay -= 1;
    if (end !== 'cancelled') this.#cooling.push(nowMs + permitWindowMs);
    if (end === 'answered') this.#capacity.answered(nowMs);
    if (this.#waiters.size > 0) this.#serve();
  }

  #wait(signal: AbortSignal): Promise<Permit> {
    let release = () => {};
    return new Promise<Permit>((resolve, reject) => {
      const waiter: Waiter = { resolve, reject };
      release = onAbort(signal, () => {
        this.#waiters.delete(waiter);
        if (this.#waiters.size === 0) this.#stopTimer();
        reject(interrupted(signal.reason));
      });
      this.#waiters.add(waiter);
      this.#serve();
    }).finally(() => release());
  }

  /** Hands out the free permits, then sets the timer for the next one. */
  #serve(): void {
    const nowMs = this.#clock.monotonic();
    while (this.#waiters.size > 0 && this.#available(nowMs)) this.#waiters.take()?.resolve(this.#grant());
    if (this.#waiters.size > 0) this.#setTimer(nowMs);
    else this.#stopTimer();
  }

  #setTimer(nowMs: number): void {
    const capacity = this.#capacity.at(nowMs);
    let at = this.#used < capacity ? nowMs : this.#cooling.nth(this.#used - capacity);
    at = Math.max(Math.min(at, this.#capacity.risesAt), this.#pausedUntil);
    // While all permits are under way, the next response serves the waiters; a timer that fires earlier sets the next one.
    if (at === Number.POSITIVE_INFINITY || (this.#timer !== undefined && this.#timer.at <= at)) return;
    this.#stopTimer();
    const timer = { at, stop: new AbortController() };
    this.#timer = timer;
    // Sums of fractions are inexact: a wait of next to nothing might never end.
    this.#clock.sleep(Math.max(at - nowMs, 0.001), timer.stop.signal).then(
      () => {
        if (this.#timer === timer) this.#timer = undefined;
        this.#serve();
      },
      () => undefined,
    );
  }

  #stopTimer(): void {
    this.#timer?.stop.abort();
    this.#timer = undefined;
  }
}

type PermitEnd = 'answered' | 'failed' | 'cancelled';

class HeldPermit implements Permit {
  readonly #grantedAt: number;
  readonly #hasLapsed: (grantedAt: number) => boolean;
  #giveBack: ((end: PermitEnd) => void) | undefined;

  constructor(grantedAt: number, hasLapsed: (grantedAt: number) => boolean, giveBack: (end: PermitEnd) => void) {
    this.#grantedAt = grantedAt;
    this.#hasLapsed = hasLapsed;
    this.#giveBack = giveBack;
  }

  get isLapsed(): boolean {
    return this.#hasLapsed(this.#grantedAt);
  }

  answered(): void {
    this.#end('answered');
  }

  failed(): void {
    this.#end('failed');
  }

  cancelled(): void {
    this.#end('cancelled');
  }

  #end(end: PermitEnd): void {
    const giveBack = this.#giveBack;
    this.#giveBack = undefined;
    giveBack?.(end);
  }
}

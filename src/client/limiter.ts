import type { Clock } from '../core/clock.js';
import type { Allowance, Permit } from './budget.js';
import { interrupted } from './errors.js';
import { onAbort } from './on-abort.js';
import { ReleaseRing } from './release-ring.js';
import { Waiter, WaiterQueue } from './waiter-queue.js';

/**
 * How long a permit stays in use after the answer began. The service counts a request at some moment between its sending
 * and its answer, so one full second from the answer is enough, and less is not. The extra millisecond covers services that
 * count both ends of the second or whole milliseconds, and clocks whose speeds differ by up to 0.1 %.
 */
export const permitWindowMs = 1_001;

/** The share of the budget that remains after a 429; applied at most once in each `adaptMs`. */
const shrinkTo = 0.7;
/** The share of the configured limit that comes back after each `adaptMs` without a 429. */
const recoverBy = 0.05;
const adaptMs = 1_000;

/**
 * Allows at most `limit` requests in any sliding second, at whichever moment between sending and answer the service counts
 * them (specification, section 8). A request holds a permit from before it is sent until a second after its answer began.
 * So any two requests that the service counts within one second hold permits at the same moment. Since the service may count
 * a request anywhere in that span, no rule that gives permits back sooner keeps the promise.
 *
 * Permits are handed out as soon as they are free, without pacing; each costs constant time. One timer serves all waiters. No
 * timer runs while nobody waits: it would keep the process alive.
 */
export class Limiter implements Allowance {
  readonly #clock: Clock;
  readonly #cooling: ReleaseRing;
  readonly #waiters = new WaiterQueue<Permit>();
  #limit: number;
  #effective: number;
  #underWay = 0;
  #pausedUntil = Number.NEGATIVE_INFINITY;
  #shrunkAt = Number.NEGATIVE_INFINITY;
  #quietSince = 0;
  /** When the one timer fires, and how to stop it. */
  #timer: { readonly at: number; readonly stop: AbortController } | undefined;

  /** @param limit requests a second, at least 1; rounded down */
  constructor(limit: number, clock: Clock) {
    if (!(limit >= 1)) throw new RangeError(`a limiter needs at least 1 request a second, not ${limit}`);
    this.#limit = Math.floor(limit);
    this.#effective = this.#limit;
    this.#clock = clock;
    this.#cooling = new ReleaseRing(this.#limit);
  }

  get effectiveLimit(): number {
    this.#recover(this.#clock.monotonic());
    return this.#effective;
  }

  /** Makes the configured limit smaller; a larger `limit` changes nothing. */
  lower(limit: number): void {
    this.#limit = Math.max(1, Math.min(this.#limit, Math.floor(limit)));
    this.#effective = Math.min(this.#effective, this.#limit);
  }

  async acquire(signal: AbortSignal): Promise<Permit> {
    if (signal.aborted) throw interrupted(signal.reason);
    if (this.#waiters.length === 0 && this.#available(this.#clock.monotonic())) return this.#grant();
    return this.#wait(signal);
  }

  throttled(retryAfterMs = 0): void {
    const now = this.#clock.monotonic();
    this.#recover(now);
    this.#cooling.dropUntil(now);
    if (now - this.#shrunkAt >= adaptMs) {
      this.#shrunkAt = now;
      // Shrink from the permits in use: others may use up the rest, and shrinking a limit far above our use has no effect.
      this.#effective = Math.max(1, Math.floor(Math.min(this.#effective, this.#used) * shrinkTo));
    }
    this.#quietSince = now;
    this.pause(retryAfterMs);
  }

  pause(ms: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, this.#clock.monotonic() + ms);
  }

  get #used(): number {
    return this.#underWay + this.#cooling.count;
  }

  #available(now: number): boolean {
    this.#cooling.dropUntil(now);
    this.#recover(now);
    return this.#used < this.#effective && now >= this.#pausedUntil;
  }

  #recover(now: number): void {
    if (this.#effective === this.#limit) return;
    const steps = Math.floor((now - this.#quietSince) / adaptMs);
    if (steps <= 0) return;
    this.#quietSince += steps * adaptMs;
    this.#effective = Math.min(this.#limit, this.#effective + steps * Math.ceil(this.#limit * recoverBy));
  }

  #grant(): Permit {
    this.#underWay += 1;
    return new HeldPermit((cools) => this.#giveBack(cools));
  }

  #giveBack(cools: boolean): void {
    this.#underWay -= 1;
    if (cools) this.#cooling.push(this.#clock.monotonic() + permitWindowMs);
    if (this.#waiters.length > 0) this.#serve();
  }

  #wait(signal: AbortSignal): Promise<Permit> {
    return new Promise<Permit>((resolve, reject) => {
      const waiter = new Waiter<Permit>((permit) => {
        stay();
        resolve(permit);
      });
      const stay = onAbort(signal, () => {
        this.#waiters.remove(waiter);
        if (this.#waiters.length === 0) this.#stopTimer();
        reject(interrupted(signal.reason));
      });
      this.#waiters.add(waiter);
      this.#serve();
    });
  }

  /** Hands out the free permits, then sets the timer for the next one. */
  #serve(): void {
    const now = this.#clock.monotonic();
    while (this.#waiters.length > 0 && this.#available(now)) this.#waiters.take()?.resolve(this.#grant());
    if (this.#waiters.length > 0) this.#setTimer(now);
    else this.#stopTimer();
  }

  #setTimer(now: number): void {
    let at = this.#used < this.#effective ? now : this.#cooling.earliest;
    if (this.#effective < this.#limit) at = Math.min(at, this.#quietSince + adaptMs);
    at = Math.max(at, this.#pausedUntil);
    // While all permits are under way, the next answer serves the waiters; a timer that fires earlier sets the next one itself.
    if (at === Number.POSITIVE_INFINITY || (this.#timer !== undefined && this.#timer.at <= at)) return;
    this.#stopTimer();
    const timer = { at, stop: new AbortController() };
    this.#timer = timer;
    this.#clock.sleep(at - now, timer.stop.signal).then(
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

class HeldPermit implements Permit {
  #giveBack: ((cools: boolean) => void) | undefined;

  constructor(giveBack: (cools: boolean) => void) {
    this.#giveBack = giveBack;
  }

  answered(): void {
    this.#end(true);
  }

  failed(): void {
    this.#end(true);
  }

  cancelled(): void {
    this.#end(false);
  }

  #end(cools: boolean): void {
    const giveBack = this.#giveBack;
    this.#giveBack = undefined;
    giveBack?.(cools);
  }
}

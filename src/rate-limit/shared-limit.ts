import type { Clock } from '../core/clock.js';
import type { CdsyncError } from '../core/errors.js';
import { AdaptiveLimit } from './adaptive-limit.js';
import type { Permit, RateLimiter } from './budget.js';
import type { LimitDemand } from './lease-table.js';
import { type LimitSource, SlidingWindowLimiter } from './limiter.js';
import { type Enter, heartbeatMs, leasedSince, noLease, type Sharing, type SharingRole } from './sharing-role.js';

/** A need counts as present for so long. */
const recentMs = 1_000;
/** What remains, after each beat, of the most permits in use. */
const fading = 0.9;

/** The allowance of one account that several processes share. How they share it is its role. */
export class SharedLimit implements RateLimiter, LimitSource {
  readonly #clock: Clock;
  readonly #enterRole: Enter;
  readonly #onAlone: (why: unknown) => void;
  readonly #learned: AdaptiveLimit;
  readonly #limiter: SlidingWindowLimiter;
  /** Undefined while it looks for the others. */
  #role: SharingRole | undefined;
  #lease = noLease;
  #isAlone = false;
  #refusal: CdsyncError | undefined;
  #isClosed = false;
  #waitedAt = Number.NEGATIVE_INFINITY;
  #mostUsed = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param onAlone told why this process cannot find others; it then uses the limit alone */
  constructor(limit: number, clock: Clock, { enter, onAlone }: { enter: Enter; onAlone: (why: unknown) => void }) {
    this.#clock = clock;
    this.#enterRole = enter;
    this.#onAlone = onAlone;
    this.#learned = new AdaptiveLimit(limit);
    this.#limiter = new SlidingWindowLimiter(this, clock);
    void this.#enter();
  }

  /** Makes the configured limit smaller; a larger `limit` changes nothing. */
  lower(limit: number): void {
    this.#learned.lower(limit);
  }

  get effectiveLimit(): number {
    return this.#limiter.effectiveLimit;
  }

  get otherProcesses(): number {
    return Math.max(0, (this.#role?.sharers ?? 1) - 1);
  }

  async acquire(signal: AbortSignal): Promise<Permit> {
    if (this.#refusal !== undefined) throw this.#refusal;
    const permit = this.#limiter.acquire(signal);
    if (this.#limiter.waiting > 0) this.#wait();
    return permit;
  }

  throttled(retryAfterMs = 0): void {
    this.#limiter.throttled(retryAfterMs);
    if (retryAfterMs > 0) this.#role?.tellPause(retryAfterMs);
  }

  pause(ms: number): void {
    this.#limiter.pause(ms);
    this.#role?.tellPause(ms);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#role?.close();
  }

  at(now: number): number {
    if (this.#isAlone) return this.#learned.at(now);
    if (this.#role !== undefined) return this.#role.at(now);
    return now < this.#lease.until ? this.#lease.permits : 0;
  }

  heldSince(now: number): number {
    if (this.#isAlone) return Number.NEGATIVE_INFINITY;
    return this.#role?.heldSince(now) ?? leasedSince(this.#lease, now);
  }

  get risesAt(): number {
    return this.#isAlone ? this.#learned.risesAt : (this.#role?.risesAt ?? Number.POSITIVE_INFINITY);
  }

  answered(now: number): void {
    (this.#role ?? this.#learned).answered(now);
  }

  refused(): void {
    (this.#role ?? this.#learned).refused();
  }

  async #enter(silent?: number): Promise<void> {
    try {
      const role = await this.#enterRole(this.#sharing(), () => this.#lease, silent);
      if (this.#isClosed) return await role.close();
      this.#role = role;
      role.beat();
    } catch (error) {
      this.#isAlone = true;
      this.#onAlone(error);
    }
    this.#limiter.wake();
    this.#keepTime();
  }

  #sharing(): Sharing {
    return {
      clock: this.#clock,
      limiter: this.#limiter,
      learned: this.#learned,
      demand: (part) => this.#demand(part),
      lost: (role, silent) => {
        if (role !== this.#role || this.#isClosed) return;
        this.#lease = role.lease;
        this.#role = undefined;
        void role.close();
        void this.#enter(silent);
      },
      refuse: (error) => {
        this.#refusal = error;
        this.#limiter.refuse(error);
      },
    };
  }

  #demand(part: number): LimitDemand {
    const { used } = this.#limiter;
    const now = this.#clock.monotonic();
    this.#mostUsed = Math.max(used, this.#mostUsed);
    if (this.#limiter.waiting > 0) this.#waitedAt = now;
    const waiting = now - this.#waitedAt < recentMs;
    return { limit: this.#learned.limit, part, held: Math.max(part, used), used: this.#mostUsed, waiting };
  }

  #wait(): void {
    this.#waitedAt = this.#clock.monotonic();
    if (this.#role?.beats) this.#role.hurry();
    this.#keepTime();
  }

  /** Runs the timer while it is needed; it keeps the process alive only while requests wait. */
  #keepTime(): void {
    const isNeeded = !this.#isClosed && !this.#isAlone && (this.#role?.beats ?? true);
    if (!isNeeded) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    this.#timer ??= setInterval(() => this.#beat(), heartbeatMs).unref();
    if (this.#limiter.waiting > 0) this.#timer.ref();
    else this.#timer.unref();
  }

  #beat(): void {
    this.#mostUsed = Math.floor(this.#mostUsed * fading);
    this.#role?.beat();
    this.#keepTime();
  }
}

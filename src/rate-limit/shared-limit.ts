import type { Clock } from '../core/clock.js';
import type { CdsyncError } from '../core/errors.js';
import { AdaptiveLimit } from './adaptive-limit.js';
import type { Permit, RateLimiter } from './budget.js';
import type { LimitDemand } from './lease-table.js';
import { type LimitSource, SlidingWindowLimiter } from './limiter.js';
import {
  heartbeatMs,
  type Join,
  leasedSince,
  noLease,
  type Participant,
  type ParticipantContext,
} from './participant.js';

/** How long a need counts after it was last seen. */
const recentMs = 1_000;
/** The factor by which the highest number of permits in use shrinks with each beat. */
const fading = 0.9;

/** The limit of one account that several processes share. Its {@link Participant} knows how they share it. */
export class SharedLimit implements RateLimiter, LimitSource {
  readonly #clock: Clock;
  readonly #joinOthers: Join;
  readonly #onAlone: (why: unknown) => void;
  readonly #learned: AdaptiveLimit;
  readonly #limiter: SlidingWindowLimiter;
  /** Undefined while this process searches for the others. */
  #participant: Participant | undefined;
  #lease = noLease;
  #isAlone = false;
  #refusal: CdsyncError | undefined;
  #isClosed = false;
  #waitedAt = Number.NEGATIVE_INFINITY;
  #mostUsed = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param onAlone called with the reason if this process cannot find others; it then uses the whole limit */
  constructor(limit: number, clock: Clock, { join, onAlone }: { join: Join; onAlone: (why: unknown) => void }) {
    this.#clock = clock;
    this.#joinOthers = join;
    this.#onAlone = onAlone;
    this.#learned = new AdaptiveLimit(limit);
    this.#limiter = new SlidingWindowLimiter(this, clock);
    void this.#join();
  }

  /** Makes the configured limit smaller; a larger `limit` changes nothing. */
  lower(limit: number): void {
    this.#learned.lower(limit);
  }

  get effectiveLimit(): number {
    return this.#limiter.effectiveLimit;
  }

  get otherProcesses(): number {
    return Math.max(0, (this.#participant?.participants ?? 1) - 1);
  }

  async acquire(signal: AbortSignal): Promise<Permit> {
    if (this.#refusal !== undefined) throw this.#refusal;
    const permit = this.#limiter.acquire(signal);
    if (this.#limiter.waiting > 0) this.#wait();
    return permit;
  }

  throttled(retryAfterMs = 0): void {
    this.#limiter.throttled(retryAfterMs);
    if (retryAfterMs > 0) this.#participant?.sharePause(retryAfterMs);
  }

  pause(ms: number): void {
    this.#limiter.pause(ms);
    this.#participant?.sharePause(ms);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#participant?.close();
  }

  at(now: number): number {
    if (this.#isAlone) return this.#learned.at(now);
    if (this.#participant !== undefined) return this.#participant.at(now);
    return now < this.#lease.until ? this.#lease.permits : 0;
  }

  heldSince(now: number): number {
    if (this.#isAlone) return Number.NEGATIVE_INFINITY;
    return this.#participant?.heldSince(now) ?? leasedSince(this.#lease, now);
  }

  get risesAt(): number {
    return this.#isAlone ? this.#learned.risesAt : (this.#participant?.risesAt ?? Number.POSITIVE_INFINITY);
  }

  answered(now: number): void {
    (this.#participant ?? this.#learned).answered(now);
  }

  refused(): void {
    (this.#participant ?? this.#learned).refused();
  }

  async #join(silent?: number): Promise<void> {
    try {
      const participant = await this.#joinOthers(this.#context(), () => this.#lease, silent);
      if (this.#isClosed) return await participant.close();
      this.#participant = participant;
      participant.beat();
    } catch (error) {
      this.#isAlone = true;
      this.#onAlone(error);
    }
    this.#limiter.wake();
    this.#keepTime();
  }

  #context(): ParticipantContext {
    return {
      clock: this.#clock,
      limiter: this.#limiter,
      learned: this.#learned,
      demand: (part) => this.#demand(part),
      lost: (participant, silent) => {
        if (participant !== this.#participant || this.#isClosed) return;
        this.#lease = participant.lease;
        this.#participant = undefined;
        void participant.close();
        void this.#join(silent);
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
    if (this.#participant?.beats) this.#participant.hurry();
    this.#keepTime();
  }

  /** Runs the timer while it is needed; it keeps the process alive only while requests wait. */
  #keepTime(): void {
    const isNeeded = !this.#isClosed && !this.#isAlone && (this.#participant?.beats ?? true);
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
    this.#participant?.beat();
    this.#keepTime();
  }
}

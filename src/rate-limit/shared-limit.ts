import { randomUUID } from 'node:crypto';
import { type Clock, callEvery } from '../core/clock.js';
import { CdsyncError } from '../core/errors.js';
import { AdaptiveLimit } from './adaptive-limit.js';
import type { Permit, RateLimiter } from './budget.js';
import {
  activeLeases,
  fairShares,
  type LeaseRequest,
  type LeaseResponse,
  type LeaseStore,
  LeaseStoreUnavailable,
  type LimitDemand,
  type ParticipantLease,
} from './leases.js';
import { type LimitSource, SlidingWindowLimiter } from './limiter.js';

/** How often processes that share a limit report their needs, if the store can take that. */
const heartbeatMs = 100;
/** How long a part may be used after its report: this time, or this many pauses between reports if they are longer. */
const minLeaseMs = 1_500;
const leaseReports = 4;
/** How long a need counts after it was last seen. */
const recentMs = 1_000;
/** The factor by which the highest number of permits in use shrinks with each beat. */
const fading = 0.9;

/** A part that may be used until a time. */
interface Lease {
  readonly permits: number;
  readonly until: number;
  /** Since when this process has had a part without interruption: earlier permits belong to others. */
  readonly since: number;
}

const noLease: Lease = { permits: 0, until: Number.NEGATIVE_INFINITY, since: Number.POSITIVE_INFINITY };

/**
 * The limit of one account that several processes share. The part of this one is a lease by the store's clock. A process that is killed or
 * suspended loses its lease, and knows it by its own clock. While the store is away, it uses its lease, then waits.
 */
export class SharedLimit implements RateLimiter, LimitSource {
  readonly risesAt = Number.POSITIVE_INFINITY;
  readonly #clock: Clock;
  readonly #store: LeaseStore;
  readonly #account: string;
  readonly #onAlone: (why: unknown) => void;
  readonly #member = `${process.pid}.${randomUUID()}`;
  readonly #learned: AdaptiveLimit;
  readonly #limiter: SlidingWindowLimiter;
  #lease = noLease;
  /** The leases of all, as last read. */
  #leases: LeaseResponse | undefined;
  /** Whether it has no part because it wants none. */
  #isIdle = true;
  #isAlone = false;
  #isClosed = false;
  #refusal: CdsyncError | undefined;
  #waitedAt = Number.NEGATIVE_INFINITY;
  #peakUsed = 0;
  #answered = 0;
  #refused = 0;
  #pauseMs = 0;
  #number = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #reporting: Promise<void> | undefined;
  #hasNoticedLimits = false;
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param account as text, the same in all processes
   * @param onAlone called with the reason if this process cannot find others; it then uses the whole limit
   */
  constructor(
    limit: number,
    clock: Clock,
    { store, account, onAlone }: { store: LeaseStore; account: string; onAlone: (why: unknown) => void },
  ) {
    this.#clock = clock;
    this.#store = store;
    this.#account = account;
    this.#onAlone = onAlone;
    this.#learned = new AdaptiveLimit(limit);
    this.#limiter = new SlidingWindowLimiter(this, clock);
  }

  /** Makes the configured limit smaller; a larger `limit` changes nothing. */
  lower(limit: number): void {
    this.#learned.lower(limit);
  }

  get effectiveLimit(): number {
    return this.#isIdle ? this.#total(this.#others()) : this.#limiter.effectiveLimit;
  }

  get otherProcesses(): number {
    return this.#isAlone ? 0 : Object.keys(this.#others()).length;
  }

  async acquire(signal: AbortSignal): Promise<Permit> {
    if (this.#refusal !== undefined) throw this.#refusal;
    const permit = this.#limiter.acquire(signal);
    if (this.#limiter.waiting > 0) this.#wait();
    return permit;
  }

  throttled(retryAfterMs = 0): void {
    this.#limiter.throttled(retryAfterMs);
    if (retryAfterMs > 0) this.#sharePause(retryAfterMs);
  }

  pause(ms: number): void {
    this.#limiter.pause(ms);
    this.#sharePause(ms);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#reporting;
    // Without a lease there is nothing to give back, and a store that is away would only delay the end.
    if (this.#clock.monotonic() < this.#lease.until) this.#report({ leaves: true });
    this.#isClosed = true;
    await this.#reporting;
  }

  at(nowMs: number): number {
    if (this.#isAlone) return this.#learned.at(nowMs);
    return nowMs < this.#lease.until ? this.#lease.permits : 0;
  }

  heldSince(nowMs: number): number {
    if (this.#isAlone) return Number.NEGATIVE_INFINITY;
    return nowMs < this.#lease.until ? this.#lease.since : Number.POSITIVE_INFINITY;
  }

  answered(nowMs: number): void {
    if (this.#isAlone) this.#learned.answered(nowMs);
    else this.#answered += 1;
  }

  refused(): void {
    if (this.#isAlone) this.#learned.refused();
    else this.#refused += 1;
  }

  /** The leases of others that have or want a part. */
  #others(leases = this.#leases): Record<string, ParticipantLease> {
    return leases === undefined ? {} : activeLeases(leases, this.#member);
  }

  /** The permits to divide: the smallest of the limits that the processes are configured with, or less after 429s. */
  #total(others: Record<string, ParticipantLease>): number {
    const limits = Object.values(others).map(({ limit }) => limit);
    return Math.floor(Math.min(this.#learned.at(this.#clock.monotonic()), ...limits));
  }

  get #pauseBetween(): number {
    return Math.max(heartbeatMs, ((1 + this.otherProcesses) * 1_000) / this.#store.reportsPerSecond);
  }

  #demand(part: number): LimitDemand {
    const { used } = this.#limiter;
    const nowMs = this.#clock.monotonic();
    this.#peakUsed = Math.max(used, this.#peakUsed);
    if (this.#limiter.waiting > 0) this.#waitedAt = nowMs;
    const waiting = nowMs - this.#waitedAt < recentMs;
    return { limit: this.#learned.limit, part, held: Math.max(part, used), used: this.#peakUsed, waiting };
  }

  #wait(): void {
    const nowMs = this.#clock.monotonic();
    this.#waitedAt = nowMs;
    if (!this.#isAlone && this.at(nowMs) === 0) this.#report();
    else this.#keepTime();
  }

  #sharePause(ms: number): void {
    this.#pauseMs = Math.max(this.#pauseMs, ms);
    if (!this.#isAlone) this.#report();
  }

  /** Runs the timer while there is a part, or a need; it keeps the process alive only while requests wait. */
  #keepTime(): void {
    const isNeeded = !this.#isClosed && !this.#isAlone && this.#refusal === undefined;
    if (!isNeeded || (this.#isIdle && this.#limiter.waiting === 0)) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    this.#timer ??= callEvery(heartbeatMs, () => this.#beat()).unref();
    if (this.#limiter.waiting > 0) this.#timer.ref();
    else this.#timer.unref();
  }

  #beat(): void {
    this.#peakUsed = Math.floor(this.#peakUsed * fading);
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#reportedAt >= this.#pauseBetween) {
      const { used, waiting } = this.#demand(this.at(nowMs));
      this.#report({ leaves: used === 0 && !waiting });
    }
    this.#keepTime();
  }

  /** One report at a time, so that the stored lease of this process is true until the response. */
  #report({ leaves = false } = {}): void {
    if (this.#isClosed || this.#reporting !== undefined) return;
    this.#reporting = this.#exchange(leaves)
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#reporting = undefined;
      });
    this.#keepTime();
  }

  #failed(error: unknown): void {
    if (error instanceof LeaseStoreUnavailable) return;
    if (error instanceof CdsyncError) {
      this.#refusal = error;
      this.#limiter.refuse(error);
    } else {
      this.#isAlone = true;
      this.#onAlone(error);
      this.#limiter.wake();
    }
    this.#keepTime();
  }

  /** Reports the needs of this process, and takes the lease that the store grants. */
  async #exchange(leaves: boolean): Promise<void> {
    const nowMs = this.#clock.monotonic();
    const demand = this.#demand(leaves ? 0 : this.at(nowMs));
    const leaseMs = leaves ? 0 : Math.ceil(Math.max(minLeaseMs, leaseReports * this.#pauseBetween));
    if (leaves) this.#lease = noLease;
    this.#isIdle = leaves;
    this.#reportedAt = nowMs;
    this.#number += 1;
    let knowsOthers = true;
    const wanted = (leases = this.#leases) => {
      knowsOthers = leases !== undefined;
      return this.#wantedPart(leaves ? undefined : demand, leases);
    };
    const waiting = demand.waiting && !leaves;
    const response = await this.#reported({ ...demand, waiting, leaseMs, wanted });
    this.#learn(response);
    if (!leaves) this.#takeLease(response, nowMs, nowMs + leaseMs);
    this.#limiter.wake();
    // It wanted nothing yet, because it did not know the leases of the others.
    if (!knowsOthers && !leaves) await this.#exchange(false);
  }

  /** The part that it wants: of what all divide, its fair share; nothing if it leaves, or does not know the others. */
  #wantedPart(demand: LimitDemand | undefined, leases: LeaseResponse | undefined): ReturnType<LeaseRequest['wanted']> {
    const others = this.#others(leases);
    const total = this.#total(others);
    if (demand === undefined || leases === undefined) return { target: 0, total };
    return { target: this.#fairShare(total, demand, others, leases.now), total };
  }

  /** Sends a report, with the responses and the pause since the last one; they are then reported. */
  async #reported(needs: LimitDemand & Pick<LeaseRequest, 'leaseMs' | 'wanted'>): Promise<LeaseResponse> {
    const [answered, refused, pauseMs] = [this.#answered, this.#refused, this.#pauseMs];
    const response = await this.#store.report({
      ...needs,
      account: this.#account,
      member: this.#member,
      number: this.#number,
      answered,
      refused,
      pauseMs: Math.ceil(pauseMs),
    });
    this.#answered -= answered;
    this.#refused -= refused;
    if (this.#pauseMs === pauseMs) this.#pauseMs = 0;
    return response;
  }

  /** The part of this process, unless the store has only an older report of it. */
  #takeLease({ members }: LeaseResponse, nowMs: number, until: number): void {
    const granted = members[this.#member];
    if (granted?.number !== this.#number) return;
    const since = nowMs < this.#lease.until ? this.#lease.since : nowMs;
    this.#lease = { permits: granted.part, until, since };
  }

  /** In the same order in all processes, so that odd permits go to one of them. */
  #fairShare(total: number, demand: LimitDemand, others: Record<string, ParticipantLease>, nowMs: number): number {
    const needs = new Map<string, LimitDemand>([...Object.entries(others), [this.#member, demand]]);
    const members = [...needs.keys()].sort();
    const inOrder = members.map((member) => needs.get(member) ?? demand);
    return fairShares(total, inOrder, nowMs)[members.indexOf(this.#member)] as number;
  }

  #learn(response: LeaseResponse): void {
    const before = this.#leases;
    this.#leases = response;
    const { now, answered, refused, pause_until: pausedUntil } = response;
    if (before !== undefined && answered > before.answered) {
      this.#learned.answered(this.#clock.monotonic(), answered - before.answered);
      this.#learned.refused(Math.max(0, refused - before.refused));
    }
    // This process waits already; of several waits, the longest counts.
    if (pausedUntil > now) this.#limiter.pause(pausedUntil - now);
    const other = Object.values(this.#others()).find(({ limit }) => limit !== this.#learned.limit);
    if (other === undefined || this.#hasNoticedLimits) return;
    this.#hasNoticedLimits = true;
    this.#store.notice(
      `warning: other processes of this budget have rate_limits of ${other.limit} a second, this one ${this.#learned.limit}; the smaller holds for all`,
    );
  }
}

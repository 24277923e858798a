import { randomUUID } from 'node:crypto';
import { CdsyncError } from '../core/errors.js';
import { fairShares } from './lease-table.js';
import {
  heartbeatMs,
  type Lease,
  leasedSince,
  nextLease,
  noLease,
  type Participant,
  type ParticipantContext,
} from './participant.js';
import type { LeaseResponse, ParticipantLease, PostgresLeases } from './postgres-leases.js';

/** Reports of all processes together, a second: no load for a small database. */
const reportsPerSecond = 16;
/** How long a part may be used after its report: this time, or this many pauses between reports if they are longer. */
const shortestLeaseMs = 1_500;
const leaseReports = 4;

/**
 * A process that shares a limit with all that use the same database. Its part is a lease by the database's clock. A process that is
 * killed or suspended loses its lease, and knows it by its own clock. While the database is away, it uses its lease, then waits.
 *
 * The rule is that of `LeaseTable`, written in SQL: a part grows only by free permits.
 */
export class LeaseParticipant implements Participant {
  readonly beats = true;
  readonly risesAt = Number.POSITIVE_INFINITY;
  readonly #context: ParticipantContext;
  readonly #leases: PostgresLeases;
  readonly #account: string;
  readonly #member = randomUUID();
  #lease: Lease = noLease;
  #others: readonly ParticipantLease[] = [];
  /** The counts of the whole fleet, as last read. */
  #fleet: Pick<LeaseResponse, 'answered' | 'refused'> | undefined;
  #answered = 0;
  #refused = 0;
  #pauseMs = 0;
  #number = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #reporting: Promise<void> | undefined;
  #hasNoticedLimits = false;
  #isClosed = false;

  /** @param account as text, the same in all processes */
  constructor(context: ParticipantContext, leases: PostgresLeases, account: string) {
    this.#context = context;
    this.#leases = leases;
    this.#account = account;
  }

  get participants(): number {
    return 1 + this.#others.length;
  }

  get total(): number {
    const { learned, clock } = this.#context;
    return Math.min(learned.at(clock.monotonic()), ...this.#others.map(({ limit }) => limit));
  }

  get lease(): Lease {
    return this.#lease;
  }

  at(now: number): number {
    return now < this.#lease.until ? this.#lease.permits : 0;
  }

  heldSince(now: number): number {
    return leasedSince(this.#lease, now);
  }

  answered(): void {
    this.#answered += 1;
  }

  refused(): void {
    this.#refused += 1;
  }

  beat(): void {
    const now = this.#context.clock.monotonic();
    if (now - this.#reportedAt < this.#pauseBetween) return;
    const part = this.at(now);
    const { used, waiting } = this.#context.demand(part);
    const isIdle = used === 0 && !waiting;
    if (!isIdle || part > 0 || this.#pauseMs > 0) this.#report(isIdle);
  }

  hurry(): void {
    if (this.at(this.#context.clock.monotonic()) === 0) this.#report(false);
  }

  sharePause(ms: number): void {
    this.#pauseMs = Math.max(this.#pauseMs, ms);
    this.#report(false);
  }

  async close(): Promise<void> {
    await this.#reporting;
    if (this.#number > 0) this.#report(true);
    this.#isClosed = true;
    await this.#reporting;
  }

  get #pauseBetween(): number {
    return Math.max(heartbeatMs, (this.participants * 1_000) / reportsPerSecond);
  }

  /** One report at a time, so that the stored lease of this process is true until the response. */
  #report(leaves: boolean): void {
    if (this.#isClosed || this.#reporting !== undefined) return;
    this.#reporting = this.#exchange(leaves)
      .catch((error: unknown) => {
        if (error instanceof CdsyncError) this.#context.refuse(error);
      })
      .finally(() => {
        this.#reporting = undefined;
      });
  }

  async #exchange(leaves: boolean): Promise<void> {
    const now = this.#context.clock.monotonic();
    const part = this.at(now);
    const { limit, held, used, waiting } = this.#context.demand(part);
    const total = Math.floor(this.total);
    const [target = 0] = fairShares(total, [{ used, waiting }, ...this.#others], now);
    const leaseMs = leaves ? 0 : Math.max(shortestLeaseMs, leaseReports * this.#pauseBetween);
    if (leaves) this.#lease = noLease;
    this.#reportedAt = now;
    this.#number += 1;
    const [answered, refused, pauseMs] = [this.#answered, this.#refused, this.#pauseMs];
    const isFirst = this.#fleet === undefined;
    const response = await this.#leases.report({
      account: this.#account,
      member: this.#member,
      number: this.#number,
      limit,
      part: leaves ? 0 : part,
      held: leaves ? this.#context.limiter.used : held,
      used,
      waiting: waiting && !leaves,
      // The others are not known yet: the first report only reads their leases.
      target: leaves || isFirst ? 0 : target,
      total,
      answered,
      refused,
      pauseMs: Math.ceil(pauseMs),
      leaseMs: Math.ceil(leaseMs),
    });
    this.#answered -= answered;
    this.#refused -= refused;
    if (this.#pauseMs === pauseMs) this.#pauseMs = 0;
    this.#learn(response);
    const own = response.members[this.#member];
    if (!leaves && own?.number === this.#number)
      this.#lease = nextLease(this.#lease, own.part, { from: now, until: now + leaseMs });
    this.#context.limiter.wake();
    if (isFirst && !leaves) await this.#exchange(false);
  }

  #learn({ now, answered, refused, pause_until, members }: LeaseResponse): void {
    const { learned, limiter, clock } = this.#context;
    const others = Object.entries(members).filter(([member, { until }]) => member !== this.#member && until > now);
    this.#others = others.flatMap(([, other]) => (other.part > 0 || other.waiting ? [other] : []));
    if (this.#fleet !== undefined && answered > this.#fleet.answered) {
      learned.answered(clock.monotonic(), answered - this.#fleet.answered);
      learned.refused(Math.max(0, refused - this.#fleet.refused));
    }
    this.#fleet = { answered, refused };
    // This process waits already; of several waits, the longest counts.
    if (pause_until > now) limiter.pause(pause_until - now);
    this.#compareLimits(learned.limit);
  }

  #compareLimits(own: number): void {
    const other = this.#others.find(({ limit }) => limit !== own);
    if (other === undefined || this.#hasNoticedLimits) return;
    this.#hasNoticedLimits = true;
    this.#leases.notice(
      `warning: other processes of this budget have rate_limits of ${other.limit} a second, this one ${own}; the smaller holds for all`,
    );
  }
}

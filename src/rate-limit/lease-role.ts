import { randomUUID } from 'node:crypto';
import { CdsyncError } from '../core/errors.js';
import { fairShares } from './lease-table.js';
import type { LeaseTable, ParticipantLease, PostgresLeases } from './postgres-leases.js';
import {
  heartbeatMs,
  type Lease,
  leasedSince,
  nextLease,
  noLease,
  type Sharing,
  type SharingRole,
} from './sharing-role.js';

/** Reports of all processes together, a second: as many as a small database does not feel. */
const reportsPerSecond = 16;
/** A part may be used for so long after the report that gave it, or for so many times the pause between reports. */
const shortestLeaseMs = 1_500;
const leaseReports = 4;

/**
 * A process that shares a limit with all that report to the same ledger. Its part is a lease by the database's clock: a process that is
 * killed or suspended loses it, and its own clock tells it so. While the ledger does not answer, it uses its lease, then waits.
 *
 * As in a `Division`, a part is raised only from permits that nobody holds, and a lowered part counts as held until its
 * process says that it has come down to it.
 */
export class LedgerRole implements SharingRole {
  readonly beats = true;
  readonly risesAt = Number.POSITIVE_INFINITY;
  readonly #sharing: Sharing;
  readonly #ledger: PostgresLeases;
  readonly #account: string;
  readonly #member = randomUUID();
  #lease: Lease = noLease;
  #others: readonly ParticipantLease[] = [];
  /** The counts of the whole fleet, when they were last seen. */
  #fleet: Pick<LeaseTable, 'answered' | 'refused'> | undefined;
  #answered = 0;
  #refused = 0;
  #pauseMs = 0;
  #number = 0;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #reporting: Promise<void> | undefined;
  #hasToldLimits = false;
  #isClosed = false;

  /** @param account as text, the same in all processes */
  constructor(sharing: Sharing, ledger: PostgresLeases, account: string) {
    this.#sharing = sharing;
    this.#ledger = ledger;
    this.#account = account;
  }

  get sharers(): number {
    return 1 + this.#others.length;
  }

  get total(): number {
    const { learned, clock } = this.#sharing;
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
    const now = this.#sharing.clock.monotonic();
    if (now - this.#reportedAt < this.#pauseBetween) return;
    const part = this.at(now);
    const { used, waiting } = this.#sharing.demand(part);
    const isIdle = used === 0 && !waiting;
    if (!isIdle || part > 0 || this.#pauseMs > 0) this.#report(isIdle);
  }

  hurry(): void {
    if (this.at(this.#sharing.clock.monotonic()) === 0) this.#report(false);
  }

  tellPause(ms: number): void {
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
    return Math.max(heartbeatMs, (this.sharers * 1_000) / reportsPerSecond);
  }

  /** One report at a time: so what the ledger knows of this process is true until it answers. */
  #report(leaves: boolean): void {
    if (this.#isClosed || this.#reporting !== undefined) return;
    this.#reporting = this.#exchange(leaves)
      .catch((error: unknown) => {
        if (error instanceof CdsyncError) this.#sharing.refuse(error);
      })
      .finally(() => {
        this.#reporting = undefined;
      });
  }

  async #exchange(leaves: boolean): Promise<void> {
    const now = this.#sharing.clock.monotonic();
    const part = this.at(now);
    const { limit, held, used, waiting } = this.#sharing.demand(part);
    const total = Math.floor(this.total);
    const [target = 0] = fairShares(total, [{ used, waiting }, ...this.#others], now);
    const leaseMs = leaves ? 0 : Math.max(shortestLeaseMs, leaseReports * this.#pauseBetween);
    if (leaves) this.#lease = noLease;
    this.#reportedAt = now;
    this.#number += 1;
    const [answered, refused, pauseMs] = [this.#answered, this.#refused, this.#pauseMs];
    const isFirst = this.#fleet === undefined;
    const answer = await this.#ledger.report({
      account: this.#account,
      member: this.#member,
      number: this.#number,
      limit,
      part: leaves ? 0 : part,
      held: leaves ? this.#sharing.limiter.used : held,
      used,
      waiting: waiting && !leaves,
      // The others are not known yet: the first report only asks who they are.
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
    this.#learn(answer);
    const own = answer.members[this.#member];
    if (!leaves && own?.number === this.#number)
      this.#lease = nextLease(this.#lease, own.part, { from: now, until: now + leaseMs });
    this.#sharing.limiter.wake();
    if (isFirst && !leaves) await this.#exchange(false);
  }

  #learn({ now, answered, refused, pause_until, members }: LeaseTable): void {
    const { learned, limiter, clock } = this.#sharing;
    const others = Object.entries(members).filter(([member, { until }]) => member !== this.#member && until > now);
    this.#others = others.flatMap(([, other]) => (other.part > 0 || other.waiting ? [other] : []));
    if (this.#fleet !== undefined && answered > this.#fleet.answered) {
      learned.answered(clock.monotonic(), answered - this.#fleet.answered);
      learned.refused(Math.max(0, refused - this.#fleet.refused));
    }
    this.#fleet = { answered, refused };
    // The service has told this process already; of those who were told later, the longest wait counts.
    if (pause_until > now) limiter.pause(pause_until - now);
    this.#compareLimits(learned.limit);
  }

  #compareLimits(own: number): void {
    const other = this.#others.find(({ limit }) => limit !== own);
    if (other === undefined || this.#hasToldLimits) return;
    this.#hasToldLimits = true;
    this.#ledger.tell(
      `warning: other processes of this budget have rate_limits of ${other.limit} a second, this one ${own}; the smaller holds for all`,
    );
  }
}

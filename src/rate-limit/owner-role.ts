import type { Socket } from 'node:net';
import { Division, reclaimDelayMs } from './lease-table.js';
import { type Claim, type FormerUse, type Message, readMessages, type Share, sendMessage } from './meeting-place.js';
import { type Lease, leasedSince, leaseMs, noLease, type Sharing, type SharingRole } from './sharing-role.js';

/** How long the owner may hand out permits before it looks again whether it is still the owner. */
const authorityMs = 250;
/** The share of the limit that the owner notes as used ahead of its use: a process that starts after it waits for these too. */
const aheadShare = 1 / 32;
/** As many permits as no limit has: all are in use, as far as a successor knows. */
const noneFree = 1_000_000;
/** A beat that is later than this says that this process was held up: the others may have spoken. */
const lateMs = 500;

/** The longest time for which an owner lets permits be used. */
export const longestUseMs = authorityMs + leaseMs;

/** The process that divides the limit. Alone, it uses all of it, and needs no timer and no message. */
export class OwnerRole implements SharingRole {
  readonly #sharing: Sharing;
  readonly #claim: Claim;
  readonly #division: Division;
  readonly #sockets = new Set<Socket>();
  /** Who has which part, as far as they have told. */
  readonly #shares = new Map<Socket, Share>();
  #part: number;
  readonly #since: number;
  #confirmedAt = Number.NEGATIVE_INFINITY;
  /** The permits that this process may use before it must note more. */
  #confirmed = 0;
  #beatAt = Number.NEGATIVE_INFINITY;
  #isLost = false;

  constructor(sharing: Sharing, claim: Claim, lease: Lease) {
    const now = sharing.clock.monotonic();
    this.#sharing = sharing;
    this.#claim = claim;
    this.#division = new Division(
      claim.former.map(({ permits, forMs }) => ({ at: now + forMs + reclaimDelayMs, permits })),
    );
    this.#part = now < lease.until ? lease.permits : 0;
    this.#since = Math.min(now, leasedSince(lease, now));
    claim.onConnection((socket) => this.#meet(socket));
  }

  get sharers(): number {
    return this.#division.size;
  }

  get total(): number {
    return Math.min(this.#sharing.learned.at(this.#sharing.clock.monotonic()), this.#division.limit);
  }

  /** Whoever takes over counts all that this process had as in use. */
  get lease(): Lease {
    return noLease;
  }

  get beats(): boolean {
    return !this.#isAlone(this.#sharing.clock.monotonic());
  }

  get risesAt(): number {
    return this.#sharing.learned.risesAt;
  }

  at(now: number): number {
    if (!this.#isOwner(now)) return 0;
    return this.#isAlone(now) ? this.#sharing.learned.at(now) : this.#part;
  }

  heldSince(now: number): number {
    return this.#isOwner(now) ? this.#since : Number.POSITIVE_INFINITY;
  }

  answered(now: number): void {
    this.#sharing.learned.answered(now);
  }

  refused(): void {
    this.#sharing.learned.refused();
  }

  beat(): void {
    const now = this.#sharing.clock.monotonic();
    if (now - this.#beatAt < lateMs) this.#division.dropSilent(now - leaseMs, now);
    this.#beatAt = now;
    this.#divideOwn(now);
  }

  hurry(): void {
    this.#divideOwn(this.#sharing.clock.monotonic());
  }

  tellPause(pauseMs: number, from?: Socket): void {
    for (const socket of this.#sockets) if (socket !== from) sendMessage(socket, { pauseMs });
  }

  async close(): Promise<void> {
    this.#isLost = true;
    for (const socket of this.#sockets) socket.destroy();
    await this.#claim.close(this.#sharing.limiter.used === 0 && this.#sockets.size === 0);
  }

  #isAlone(now: number): boolean {
    return this.#division.size <= 1 && this.#sockets.size === 0 && this.#division.isSettled(now);
  }

  /** Whether this process may hand out permits now: another may have taken over while it was suspended. */
  #isOwner(now: number): boolean {
    if (this.#isLost) return false;
    const { used } = this.#sharing.limiter;
    if (now - this.#confirmedAt < authorityMs && used < this.#confirmed) return true;
    this.#confirmedAt = now;
    const { limit } = this.#sharing.learned;
    this.#confirmed = used + Math.ceil(limit * aheadShare);
    if (this.#claim.confirm(this.#use(now))) return true;
    this.#isLost = true;
    this.#sharing.lost(this);
    return false;
  }

  /**
   * The permits that may be in use until the next note. Without other processes, these are its own and those that former owners
   * have left, so that a successor of a short run need not wait.
   */
  #use(now: number): FormerUse {
    if (this.#division.size > 1 || this.#sockets.size > 0) return { permits: noneFree, forMs: longestUseMs };
    const left = this.#division.returning(now);
    const permits = Math.min(
      noneFree,
      left.reduce((sum, each) => sum + each.permits, this.#confirmed),
    );
    return { permits, forMs: Math.max(authorityMs, ...left.map(({ at }) => at - reclaimDelayMs - now)) };
  }

  #divideOwn(now: number): void {
    const { learned, limiter } = this.#sharing;
    if (!this.#isOwner(now)) return;
    const total = Math.min(learned.at(now), this.#division.limit);
    this.#part = this.#division.report(this, this.#sharing.demand(this.#part), total, now);
    limiter.wake();
  }

  #meet(socket: Socket): void {
    socket.unref();
    const now = this.#sharing.clock.monotonic();
    // While it was alone, it used all, whatever its part.
    if (this.#isAlone(now)) this.#part = this.#sharing.learned.at(now);
    this.#sockets.add(socket);
    // The note of how long permits may be used does not cover a member's lease yet.
    this.#confirmedAt = Number.NEGATIVE_INFINITY;
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#sockets.delete(socket);
      this.#shares.delete(socket);
      this.#division.leave(socket, this.#sharing.clock.monotonic());
    });
    readMessages(socket, ({ report, pauseMs, look }) => {
      if (look) sendMessage(socket, { shares: this.#allShares() });
      if (report !== undefined) this.#answer(socket, report);
      if (pauseMs === undefined) return;
      this.#sharing.limiter.pause(pauseMs);
      this.tellPause(pauseMs, socket);
    });
  }

  #allShares(): Share[] {
    return [{ pid: process.pid, permits: this.#part }, ...this.#shares.values()];
  }

  #answer(socket: Socket, { pid, answered, refused, ...demand }: Message['report']): void {
    const now = this.#sharing.clock.monotonic();
    if (!this.#isOwner(now)) return;
    const { learned } = this.#sharing;
    this.#divideOwn(now);
    if (answered > 0) learned.answered(now, answered);
    learned.refused(refused);
    const total = Math.min(learned.at(now), this.#division.limit, demand.limit);
    const permits = this.#division.report(socket, demand, total, now);
    this.#shares.set(socket, { pid, permits });
    sendMessage(socket, { part: { permits, total, sharers: this.#division.size } });
    this.#divideOwn(now);
  }
}

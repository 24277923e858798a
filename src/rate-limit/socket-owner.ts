import type { Socket } from 'node:net';
import { LeaseTable, reclaimDelayMs } from './lease-table.js';
import {
  type FormerPermits,
  type Message,
  readMessages,
  type Share,
  type SocketOwnership,
  sendMessage,
} from './limit-socket.js';
import { type Lease, leasedSince, leaseMs, noLease, type Participant, type ParticipantContext } from './participant.js';

/** How long the owner hands out permits before it checks again that it is the owner. */
const authorityMs = 250;
/** The share of the limit that the owner notes as used before its use: its successor waits for these permits too. */
const aheadShare = 1 / 32;
/** More permits than any limit has: a successor must take all for used. */
const noneFree = 1_000_000;
/** After a beat that is later than this, silence proves nothing: this process was suspended, and reports may wait to be read. */
const lateMs = 500;

/** The longest time for which permits of an owner may be used after its last note. */
export const longestUseMs = authorityMs + leaseMs;

/** The process that owns the socket and divides the limit. While it is alone it uses all of it, without timers and messages. */
export class SocketOwner implements Participant {
  readonly #context: ParticipantContext;
  readonly #ownership: SocketOwnership;
  readonly #leases: LeaseTable;
  readonly #sockets = new Set<Socket>();
  /** The part of each member, as last reported. */
  readonly #shares = new Map<Socket, Share>();
  #part: number;
  readonly #since: number;
  #confirmedAt = Number.NEGATIVE_INFINITY;
  /** The permits that this process may use before it must note more. */
  #confirmed = 0;
  #beatAt = Number.NEGATIVE_INFINITY;
  #isLost = false;

  constructor(context: ParticipantContext, ownership: SocketOwnership, lease: Lease) {
    const now = context.clock.monotonic();
    this.#context = context;
    this.#ownership = ownership;
    this.#leases = new LeaseTable(
      ownership.former.map(({ permits, forMs }) => ({ at: now + forMs + reclaimDelayMs, permits })),
    );
    this.#part = now < lease.until ? lease.permits : 0;
    this.#since = Math.min(now, leasedSince(lease, now));
    ownership.onConnection((socket) => this.#meet(socket));
  }

  get participants(): number {
    return this.#leases.size;
  }

  get total(): number {
    return Math.min(this.#context.learned.at(this.#context.clock.monotonic()), this.#leases.limit);
  }

  /** A successor counts all permits of this process as in use. */
  get lease(): Lease {
    return noLease;
  }

  get beats(): boolean {
    return !this.#isAlone(this.#context.clock.monotonic());
  }

  get risesAt(): number {
    return this.#context.learned.risesAt;
  }

  at(now: number): number {
    if (!this.#isOwner(now)) return 0;
    return this.#isAlone(now) ? this.#context.learned.at(now) : this.#part;
  }

  heldSince(now: number): number {
    return this.#isOwner(now) ? this.#since : Number.POSITIVE_INFINITY;
  }

  answered(now: number): void {
    this.#context.learned.answered(now);
  }

  refused(): void {
    this.#context.learned.refused();
  }

  beat(): void {
    const now = this.#context.clock.monotonic();
    if (now - this.#beatAt < lateMs) this.#leases.dropSilent(now - leaseMs, now);
    this.#beatAt = now;
    this.#divideOwn(now);
  }

  hurry(): void {
    this.#divideOwn(this.#context.clock.monotonic());
  }

  sharePause(pauseMs: number, from?: Socket): void {
    for (const socket of this.#sockets) if (socket !== from) sendMessage(socket, { pauseMs });
  }

  async close(): Promise<void> {
    this.#isLost = true;
    for (const socket of this.#sockets) socket.destroy();
    await this.#ownership.close(this.#context.limiter.used === 0 && this.#sockets.size === 0);
  }

  #isAlone(now: number): boolean {
    return this.#leases.size <= 1 && this.#sockets.size === 0 && this.#leases.isSettled(now);
  }

  /** Whether this process may hand out permits now. Another process may have taken over while it was suspended. */
  #isOwner(now: number): boolean {
    if (this.#isLost) return false;
    const { used } = this.#context.limiter;
    if (now - this.#confirmedAt < authorityMs && used < this.#confirmed) return true;
    this.#confirmedAt = now;
    const { limit } = this.#context.learned;
    this.#confirmed = used + Math.ceil(limit * aheadShare);
    if (this.#ownership.confirm(this.#use(now))) return true;
    this.#isLost = true;
    this.#context.lost(this);
    return false;
  }

  /**
   * The permits that may be in use until the next note. Without other processes, these are its own and those that former owners
   * have left, so that a successor of a short run need not wait.
   */
  #use(now: number): FormerPermits {
    if (this.#leases.size > 1 || this.#sockets.size > 0) return { permits: noneFree, forMs: longestUseMs };
    const left = this.#leases.returning(now);
    const permits = Math.min(
      noneFree,
      left.reduce((sum, each) => sum + each.permits, this.#confirmed),
    );
    return { permits, forMs: Math.max(authorityMs, ...left.map(({ at }) => at - reclaimDelayMs - now)) };
  }

  #divideOwn(now: number): void {
    const { learned, limiter } = this.#context;
    if (!this.#isOwner(now)) return;
    const total = Math.min(learned.at(now), this.#leases.limit);
    this.#part = this.#leases.report(this, this.#context.demand(this.#part), total, now);
    limiter.wake();
  }

  #meet(socket: Socket): void {
    socket.unref();
    const now = this.#context.clock.monotonic();
    // While it was alone, it used the whole limit, whatever its part.
    if (this.#isAlone(now)) this.#part = this.#context.learned.at(now);
    this.#sockets.add(socket);
    // The note of how long permits may be used does not cover a member's lease yet.
    this.#confirmedAt = Number.NEGATIVE_INFINITY;
    socket.on('error', () => undefined);
    socket.on('close', () => {
      this.#sockets.delete(socket);
      this.#shares.delete(socket);
      this.#leases.leave(socket, this.#context.clock.monotonic());
    });
    readMessages(socket, ({ report, pauseMs, look }) => {
      if (look) sendMessage(socket, { shares: this.#allShares() });
      if (report !== undefined) this.#respond(socket, report);
      if (pauseMs === undefined) return;
      this.#context.limiter.pause(pauseMs);
      this.sharePause(pauseMs, socket);
    });
  }

  #allShares(): Share[] {
    return [{ pid: process.pid, permits: this.#part }, ...this.#shares.values()];
  }

  #respond(socket: Socket, { pid, answered, refused, ...demand }: Message['report']): void {
    const now = this.#context.clock.monotonic();
    if (!this.#isOwner(now)) return;
    const { learned } = this.#context;
    this.#divideOwn(now);
    if (answered > 0) learned.answered(now, answered);
    learned.refused(refused);
    const total = Math.min(learned.at(now), this.#leases.limit, demand.limit);
    const permits = this.#leases.report(socket, demand, total, now);
    this.#shares.set(socket, { pid, permits });
    sendMessage(socket, { part: { permits, total, participants: this.#leases.size } });
    this.#divideOwn(now);
  }
}

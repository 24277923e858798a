import type { Socket } from 'node:net';
import { type Message, readMessages, sendMessage } from './meeting-place.js';
import { type Lease, leasedSince, leaseMs, nextLease, type Sharing, type SharingRole } from './sharing-role.js';

/** How long an owner may leave a report unanswered before it is replaced. */
const silentMs = 3_000;
/** The least time between two reports. */
const hurryMs = 10;

/** A process that has its part from the owner, for a short time after each report. */
export class MemberRole implements SharingRole {
  readonly #sharing: Sharing;
  readonly #socket: Socket;
  readonly #generation: number;
  #lease: Lease;
  #isAnswered = true;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #told: Pick<Message['part'], 'total' | 'sharers'>;
  #answers = 0;
  #refused = 0;

  readonly beats = true;
  readonly risesAt = Number.POSITIVE_INFINITY;

  constructor(sharing: Sharing, socket: Socket, { generation, lease }: { generation: number; lease: Lease }) {
    this.#sharing = sharing;
    this.#socket = socket;
    this.#generation = generation;
    this.#lease = lease;
    this.#told = { total: sharing.learned.at(sharing.clock.monotonic()), sharers: 2 };
    socket.unref();
    readMessages(socket, ({ part, pauseMs }) => {
      if (part !== undefined) this.#take(part);
      if (pauseMs !== undefined) sharing.limiter.pause(pauseMs);
    });
    socket.once('close', () => sharing.lost(this));
    this.#report();
  }

  get sharers(): number {
    return this.#told.sharers;
  }

  get total(): number {
    return this.#told.total;
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
    this.#answers += 1;
  }

  refused(): void {
    this.#refused += 1;
  }

  beat(): void {
    const now = this.#sharing.clock.monotonic();
    if (this.#isAnswered) this.#report();
    else if (now - this.#reportedAt > silentMs) {
      this.#sharing.lost(this, this.#generation);
      this.#socket.destroy();
    }
  }

  hurry(): void {
    if (this.#isAnswered && this.#sharing.clock.monotonic() - this.#reportedAt >= hurryMs) this.#report();
  }

  tellPause(pauseMs: number): void {
    sendMessage(this.#socket, { pauseMs });
  }

  async close(): Promise<void> {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }

  /** One report at a time: so what the owner knows of this process is true until it answers. */
  #report(): void {
    const now = this.#sharing.clock.monotonic();
    const demand = this.#sharing.demand(this.at(now));
    this.#isAnswered = false;
    this.#reportedAt = now;
    const { pid } = process;
    sendMessage(this.#socket, { report: { pid, ...demand, answered: this.#answers, refused: this.#refused } });
    this.#answers = 0;
    this.#refused = 0;
  }

  #take({ permits, total, sharers }: Message['part']): void {
    this.#isAnswered = true;
    const from = this.#reportedAt;
    this.#lease = nextLease(this.#lease, permits, { from, until: from + leaseMs });
    this.#told = { total, sharers };
    this.#sharing.limiter.wake();
  }
}

import type { Socket } from 'node:net';
import { type Message, readMessages, sendMessage } from './limit-socket.js';
import {
  type Lease,
  leasedSince,
  leaseMs,
  nextLease,
  type Participant,
  type ParticipantContext,
} from './participant.js';

/** How long an owner may leave a report without a response before it is replaced. */
const silentMs = 3_000;
/** The least time between two reports. */
const hurryMs = 10;

/** A process that gets its part from the owner of the socket, for a short time after each report. */
export class SocketMember implements Participant {
  readonly #context: ParticipantContext;
  readonly #socket: Socket;
  readonly #generation: number;
  #lease: Lease;
  #isAnswered = true;
  #reportedAt = Number.NEGATIVE_INFINITY;
  #lastShare: Pick<Message['part'], 'total' | 'participants'>;
  #responses = 0;
  #refused = 0;

  readonly beats = true;
  readonly risesAt = Number.POSITIVE_INFINITY;

  constructor(
    context: ParticipantContext,
    socket: Socket,
    { generation, lease }: { generation: number; lease: Lease },
  ) {
    this.#context = context;
    this.#socket = socket;
    this.#generation = generation;
    this.#lease = lease;
    this.#lastShare = { total: context.learned.at(context.clock.monotonic()), participants: 2 };
    socket.unref();
    readMessages(socket, ({ part, pauseMs }) => {
      if (part !== undefined) this.#take(part);
      if (pauseMs !== undefined) context.limiter.pause(pauseMs);
    });
    socket.once('close', () => context.lost(this));
    this.#report();
  }

  get participants(): number {
    return this.#lastShare.participants;
  }

  get total(): number {
    return this.#lastShare.total;
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
    this.#responses += 1;
  }

  refused(): void {
    this.#refused += 1;
  }

  beat(): void {
    const now = this.#context.clock.monotonic();
    if (this.#isAnswered) this.#report();
    else if (now - this.#reportedAt > silentMs) {
      this.#context.lost(this, this.#generation);
      this.#socket.destroy();
    }
  }

  hurry(): void {
    if (this.#isAnswered && this.#context.clock.monotonic() - this.#reportedAt >= hurryMs) this.#report();
  }

  sharePause(pauseMs: number): void {
    sendMessage(this.#socket, { pauseMs });
  }

  async close(): Promise<void> {
    this.#socket.removeAllListeners('close');
    this.#socket.destroy();
  }

  /** One report at a time, so that the owner's view of this process is true until its response. */
  #report(): void {
    const now = this.#context.clock.monotonic();
    const demand = this.#context.demand(this.at(now));
    this.#isAnswered = false;
    this.#reportedAt = now;
    const { pid } = process;
    sendMessage(this.#socket, { report: { pid, ...demand, answered: this.#responses, refused: this.#refused } });
    this.#responses = 0;
    this.#refused = 0;
  }

  #take({ permits, total, participants }: Message['part']): void {
    this.#isAnswered = true;
    const from = this.#reportedAt;
    this.#lease = nextLease(this.#lease, permits, { from, until: from + leaseMs });
    this.#lastShare = { total, participants };
    this.#context.limiter.wake();
  }
}

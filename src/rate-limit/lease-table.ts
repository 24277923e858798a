import { permitWindowMs } from './limiter.js';

/**
 * How long the permits of a process that ended stay unused: those of its last second still count, and requests that it had
 * written to a connection may reach the service a little later.
 */
export const reclaimDelayMs = permitWindowMs + 250;

/** The share of the limit that an idle process keeps, so that its first requests need not wait. All processes together. */
const idleShare = 0.01;
/** How often a permit that cannot be divided goes to the next process. */
const turnMs = 1_250;

/** The need of one process. */
export interface LimitDemand {
  /** Its configured limit. */
  readonly limit: number;
  /** The part that it may use at present: none after a suspension, because others may have it. */
  readonly part: number;
  /** The larger of its part and the permits in use. */
  readonly held: number;
  /** The most permits in use lately. */
  readonly used: number;
  /** Whether requests have waited for a permit lately. */
  readonly waiting: boolean;
}

interface LeaseEntry extends LimitDemand {
  readonly seen: number;
}

/** Permits of a process that ended, and when they are free. */
interface Returning {
  readonly at: number;
  readonly permits: number;
}

/**
 * The parts of one limit that several processes hold. Together they never exceed the limit: a part grows only by free permits,
 * and a lowered part counts as held until its process reports that it uses no more.
 *
 * Each process gets its need if the limit suffices; otherwise those that need more than their fair share get the same.
 */
export class LeaseTable {
  readonly #entries = new Map<unknown, LeaseEntry>();
  /** Permits of processes that ended, and when they may be used again. */
  #returning: readonly Returning[];

  /** @param returning permits that were handed out before */
  constructor(returning: readonly Returning[] = []) {
    this.#returning = returning;
  }

  /** Processes that share the limit. */
  get size(): number {
    return this.#entries.size;
  }

  /** Whether no permits will become free without a report. */
  isSettled(now: number): boolean {
    return this.returning(now).length === 0;
  }

  /** Permits of processes that ended, and when they may be used again. */
  returning(now: number): readonly Returning[] {
    this.#returning = this.#returning.filter(({ at }) => at > now);
    return this.#returning;
  }

  /** The smallest of the limits that the processes are configured with. */
  get limit(): number {
    return Math.min(...[...this.#entries.values()].map(({ limit }) => limit));
  }

  /**
   * Records the need of a process, and returns its part. The process holds `demand.held` until it receives the part, then the
   * larger of the two.
   * @param total the permits to divide, at most {@link limit}
   */
  report(who: unknown, demand: LimitDemand, total: number, now: number): number {
    this.#entries.set(who, { ...demand, seen: now });
    const part = Math.min(this.#target(who, total, now), Math.max(demand.part, this.#freeFor(who, total, now)));
    this.#entries.set(who, { ...demand, held: Math.max(demand.held, part), part, seen: now });
    return part;
  }

  /** A process has ended: its permits may be used again when those in use have certainly expired. */
  leave(who: unknown, now: number): void {
    const gone = this.#entries.get(who);
    if (gone === undefined) return;
    this.#entries.delete(who);
    if (gone.held > 0) this.#returning = [...this.#returning, { at: now + reclaimDelayMs, permits: gone.held }];
  }

  /** Takes the part of each process that has not reported since `before`; it may come back. */
  dropSilent(before: number, now: number): void {
    for (const [who, { seen }] of this.#entries) if (seen < before) this.leave(who, now);
  }

  /** Permits that no other process holds. */
  #freeFor(who: unknown, total: number, now: number): number {
    const held = [...this.#entries].reduce((sum, [other, entry]) => sum + (other === who ? 0 : entry.held), 0);
    const returning = this.returning(now).reduce((sum, { permits }) => sum + permits, 0);
    return total - held - returning;
  }

  #target(who: unknown, total: number, now: number): number {
    const parts = fairShares(total, [...this.#entries.values()], now);
    return parts[[...this.#entries.keys()].indexOf(who)] as number;
  }
}

/** The parts of `total` that processes should have by their needs, in their order. The odd permits rotate with the time. */
export function fairShares(
  total: number,
  needs: readonly Pick<LimitDemand, 'used' | 'waiting'>[],
  now: number,
): number[] {
  const kept = Math.floor((total * idleShare) / needs.length);
  const wanted = needs.map(({ waiting, used }) =>
    waiting ? Number.POSITIVE_INFINITY : used + Math.max(kept, Math.ceil(used / 4)),
  );
  return splitEvenly(total, wanted, Math.floor(now / turnMs));
}

/**
 * Divides `total` by wants. No process gets more than it wants while another gets less than it wants; the latter get equal parts.
 * The odd permits rotate with `turn`, and the rest is divided evenly.
 */
export function splitEvenly(total: number, wanted: readonly number[], turn: number): number[] {
  const parts = wanted.map(() => 0);
  let left = total;
  let lacking = wanted.map((_, index) => index);
  while (lacking.length > 0) {
    const even = Math.floor(left / lacking.length);
    const content = lacking.filter((index) => (wanted[index] as number) <= even);
    if (content.length === 0) break;
    for (const index of content) {
      parts[index] = wanted[index] as number;
      left -= wanted[index] as number;
    }
    lacking = lacking.filter((index) => !content.includes(index));
  }
  const takers = lacking.length > 0 ? lacking : parts.map((_, index) => index);
  const odd = left % takers.length;
  for (const [place, index] of takers.entries()) {
    const isOdd = (place + turn * odd) % takers.length < odd;
    parts[index] = (parts[index] as number) + Math.floor(left / takers.length) + (isOdd ? 1 : 0);
  }
  return parts;
}

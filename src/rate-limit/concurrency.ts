import { interrupted } from '../core/errors.js';
import { onAbort } from '../core/on-abort.js';
import { Waiter, WaiterQueue } from './limiter.js';

/** Under way at once unless `concurrency` says otherwise: connections, files and memory of a process have ends too. */
const mostByDefault = 512;
/** Under way at once at least: enough for a service that is near. */
const fewest = 8;
/** Latencies differ: with exactly the number that the median asks for, a slow answer would leave the limit unused. */
const headroom = 1.25;
/**
 * Answers that take more than this many times as long as the quickest of their size wait for each other, here or in the
 * service. With more of them, each would only wait longer.
 */
const mostSlowdown = 3;
/** Answers whose median counts, and answers between two reckonings. */
const remembered = 64;
const between = 16;
/** The share of the memory for bodies that answers under way may fill. */
const bodyShare = 0.5;
/** A permit is taken from its request until a second after its response has begun. */
const permitMs = 1_000;
/** Before the latency is known, this share of the limit may be under way at once. */
const firstShare = 0.1;
/** After an outage, the number doubles at most this often. */
const restartStepMs = 250;

/** How many requests under way at once use a limit: its answers a second times their latency (Little's law). */
export function requiredConcurrency(limitPerSecond: number, latencyMs: number): number {
  return (limitPerSecond * latencyMs) / (permitMs + latencyMs);
}

/** The most requests that may be under way at once. @param concurrency as configured, if it is */
export function maxConcurrency({ concurrency }: { readonly concurrency?: number | undefined }): number {
  return concurrency ?? mostByDefault;
}

/** What {@link ConcurrencyController} keeps up to date: how many small requests a caller prepares at once, for example. */
interface AdjustableConcurrency {
  concurrency: number;
}

export interface AtOnceOptions {
  /** Requests a second that may be sent at present. */
  readonly limit: () => number;
  /** As configured; undefined: cdsync decides alone. */
  readonly concurrency: number | undefined;
  /** The memory for bodies. */
  readonly bodyBytes: number;
  /** A monotonic time in milliseconds. */
  readonly now?: () => number;
}

/**
 * How many requests of one group are under way at once, and who is next: first come, first served, so that all chains of pages
 * advance together. The number follows the latency of the answers and the budget: enough to use the limit, no more than help,
 * no more than the memory holds, never more than `concurrency`.
 *
 * - *start*: it begins with the number that all readings could use ({@link ConcurrencyController.expect}), and doubles with
 *   each round of answers until the latency is known.
 * - *steady*: it follows the latency.
 * - *restart*, after an outage: it begins with one request, and doubles in the same way, but slowly.
 */
export class ConcurrencyController {
  /** The number at present. */
  count: number;
  /** The most that it may become. */
  readonly most: number;
  readonly #options: AtOnceOptions;
  readonly #latencies: number[] = [];
  /** For each of them, how many times the quickest answer of its size it took. */
  readonly #slowdowns: number[] = [];
  /** The quickest answer by size: pages take longer than single records. */
  readonly #quickest = new Map<number, number>();
  readonly #governed = new Set<AdjustableConcurrency>();
  #answers = 0;
  readonly #waiters = new WaiterQueue<void>();
  #underWay = 0;
  #phase: 'start' | 'steady' | 'restart' = 'start';
  #expected = 0;
  /** Answers since the number was doubled, and when that was. */
  #round = 0;
  #doubledAt = Number.NEGATIVE_INFINITY;
  #bodyBytes = 0;

  constructor(options: AtOnceOptions) {
    this.#options = options;
    this.most = maxConcurrency(options);
    this.count = Math.min(fewest, this.most);
  }

  /** The latency that counts, in milliseconds; undefined before the first answers. */
  get latencyMs(): number | undefined {
    if (this.#latencies.length === 0) return undefined;
    const latency = median(this.#latencies);
    return (latency * mostSlowdown) / Math.max(mostSlowdown, median(this.#slowdowns));
  }

  /** This many more requests could be under way at once. Until the latency is known, they may be, up to a tenth of the limit. */
  expect(requests: number): void {
    if (this.#phase !== 'start') return;
    this.#expected += requests;
    const first = Math.min(this.#expected, Math.ceil(this.#options.limit() * firstShare), this.most);
    this.#set(Math.max(this.count, first));
  }

  /**
   * Waits until one more request may be under way. Call {@link release} when it has ended.
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts
   */
  acquire(signal: AbortSignal): Promise<void> | undefined {
    if (this.#waiters.length === 0 && this.#underWay < this.count) {
      this.#underWay += 1;
      return undefined;
    }
    if (signal.aborted) throw interrupted(signal.reason);
    return new Promise((resolve, reject) => {
      const waiter = new Waiter<void>(
        () => {
          stay();
          resolve();
        },
        () => undefined,
      );
      const stay = onAbort(signal, () => {
        this.#waiters.remove(waiter);
        reject(interrupted(signal.reason));
      });
      this.#waiters.add(waiter);
    });
  }

  release(): void {
    this.#underWay -= 1;
    this.#serve();
  }

  /** The service answers again after an outage. */
  restart(): void {
    this.#phase = 'restart';
    this.#round = 0;
    this.#doubledAt = this.#now();
    this.#set(1);
  }

  /** A whole answer has come, `ms` after its request was sent. */
  answered(ms: number, bytes: number): void {
    const size = Math.round(Math.log2(bytes + 1) / 2);
    const quickest = Math.max(0.1, Math.min(ms, this.#quickest.get(size) ?? ms));
    this.#quickest.set(size, quickest);
    const place = this.#answers % remembered;
    this.#latencies[place] = ms;
    this.#slowdowns[place] = ms / quickest;
    this.#answers += 1;
    this.#bodyBytes += (bytes - this.#bodyBytes) / Math.min(this.#answers, remembered);
    if (this.#phase === 'steady') {
      if (this.#answers % between === 0) this.#set(this.#needed());
      return;
    }
    this.#round += 1;
    if (this.#round >= this.count) this.#endRound();
  }

  /** Keeps the `concurrency` of something at {@link ConcurrencyController.count}. @returns a function that ends that */
  govern(governed: AdjustableConcurrency): () => void {
    this.#governed.add(governed);
    governed.concurrency = this.count;
    return () => this.#governed.delete(governed);
  }

  #endRound(): void {
    const now = this.#now();
    if (this.#phase === 'restart' && now - this.#doubledAt < restartStepMs) return;
    this.#round = 0;
    this.#doubledAt = now;
    const needed = this.#needed();
    if (needed <= this.count * 2) this.#phase = 'steady';
    this.#set(Math.min(needed, this.count * 2));
  }

  #now(): number {
    return (this.#options.now ?? performance.now.bind(performance))();
  }

  #needed(): number {
    const useful = requiredConcurrency(this.#options.limit(), this.latencyMs ?? 0) * headroom;
    const holds = (this.#options.bodyBytes * bodyShare) / Math.max(1, this.#bodyBytes);
    return Math.max(1, Math.min(Math.max(fewest, Math.ceil(useful)), Math.floor(holds), this.most));
  }

  #set(count: number): void {
    if (count === this.count) return;
    this.count = count;
    for (const each of this.#governed) each.concurrency = count;
    this.#serve();
  }

  #serve(): void {
    while (this.#waiters.length > 0 && this.#underWay < this.count) {
      this.#underWay += 1;
      this.#waiters.take()?.resolve();
    }
  }
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? 0;
}

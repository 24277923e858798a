import { interrupted } from '../core/errors.js';
import { onAbort } from '../core/on-abort.js';
import { WaiterQueue } from './limiter.js';

/** The most requests in parallel without `concurrency`: connections and files of a process are limited. */
const defaultMax = 512;
/** The fewest in parallel: enough for a service that is near. */
const fewest = 8;
/** Latencies differ: with exactly the number that the median requires, a slow response would leave the limit unused. */
const headroom = 1.25;
/** Responses that take longer than this many times the quickest of their size queue here or at the service: more would only wait. */
const maxSlowdown = 3;
/** Responses whose median counts, and responses between two calculations. */
const sampleCount = 64;
const between = 16;
/** The share of the memory for bodies that responses under way may fill. */
const bodyShare = 0.5;
/** A permit is taken from its request until a second after its response has begun. */
const permitMs = 1_000;
/** Before the latency is known, this share of the limit may be in parallel. */
const firstShare = 0.1;
/** After an outage, the number doubles at most this often. */
const restartStepMs = 250;

/** How many parallel requests use a limit: responses a second times their latency (Little's law). */
export function requiredConcurrency(limitPerSecond: number, latencyMs: number): number {
  return (limitPerSecond * latencyMs) / (permitMs + latencyMs);
}

/** The most parallel requests. @param concurrency as configured, if it is */
export function maxConcurrency({ concurrency }: { readonly concurrency?: number | undefined }): number {
  return concurrency ?? defaultMax;
}

/** A number that {@link ConcurrencyController} keeps up to date: how many small requests a caller prepares, for example. */
interface AdjustableConcurrency {
  concurrency: number;
}

export interface ConcurrencyOptions {
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
 * Decides how many requests of one group are sent in parallel, and which is next: first come, first served, so that all chains of
 * pages advance together. The number follows latency and budget: enough to use the limit, no more than the memory holds, never
 * more than `concurrency`.
 *
 * - *start*: it begins with the number that all streams could use ({@link ConcurrencyController.expect}), and doubles with
 *   each round of responses until the latency is known.
 * - *steady*: it follows the latency.
 * - *restart*, after an outage: it begins with one request, and doubles in the same way, but slowly.
 */
export class ConcurrencyController {
  /** The number at present. */
  count: number;
  /** The most that it may become. */
  readonly most: number;
  readonly #options: ConcurrencyOptions;
  readonly #latencies: number[] = [];
  /** For each latency, its ratio to the quickest response of its size. */
  readonly #slowdowns: number[] = [];
  /** The quickest response by size: pages take longer than single records. */
  readonly #quickest = new Map<number, number>();
  readonly #governed = new Set<AdjustableConcurrency>();
  #responses = 0;
  readonly #waiters = new WaiterQueue<() => void>();
  #underWay = 0;
  #phase: 'start' | 'steady' | 'restart' = 'start';
  #expected = 0;
  /** Responses since the number was doubled, and the time of that. */
  #round = 0;
  #doubledAt = Number.NEGATIVE_INFINITY;
  #bodyBytes = 0;

  constructor(options: ConcurrencyOptions) {
    this.#options = options;
    this.most = maxConcurrency(options);
    this.count = Math.min(fewest, this.most);
  }

  /** The latency that counts, in milliseconds; undefined before the first responses. */
  get latencyMs(): number | undefined {
    if (this.#latencies.length === 0) return undefined;
    const latency = median(this.#latencies);
    return (latency * maxSlowdown) / Math.max(maxSlowdown, median(this.#slowdowns));
  }

  /** Announces requests that could be in parallel. Until the latency is known, they may be, up to a tenth of the limit. */
  expect(requests: number): void {
    if (this.#phase !== 'start') return;
    this.#expected += requests;
    const first = Math.min(this.#expected, Math.ceil(this.#options.limit() * firstShare), this.most);
    this.#set(Math.max(this.count, first));
  }

  /**
   * Waits until one more request may be sent. Call {@link release} when it has ended.
   * @throws {CdsyncError} `interrupted` as soon as the signal aborts
   */
  acquire(signal: AbortSignal): Promise<void> | undefined {
    if (this.#waiters.size === 0 && this.#underWay < this.count) {
      this.#underWay += 1;
      return undefined;
    }
    if (signal.aborted) throw interrupted(signal.reason);
    return new Promise((resolve, reject) => {
      const waiter = () => {
        stay();
        resolve();
      };
      const stay = onAbort(signal, () => {
        this.#waiters.delete(waiter);
        reject(interrupted(signal.reason));
      });
      this.#waiters.add(waiter);
    });
  }

  release(): void {
    this.#underWay -= 1;
    this.#serve();
  }

  /** The service responds again after an outage. */
  restart(): void {
    this.#phase = 'restart';
    this.#round = 0;
    this.#doubledAt = this.#now();
    this.#set(1);
  }

  /** A whole response has arrived, `ms` after its request was sent. */
  answered(ms: number, bytes: number): void {
    const size = Math.round(Math.log2(bytes + 1) / 2);
    const quickest = Math.max(0.1, Math.min(ms, this.#quickest.get(size) ?? ms));
    this.#quickest.set(size, quickest);
    const place = this.#responses % sampleCount;
    this.#latencies[place] = ms;
    this.#slowdowns[place] = ms / quickest;
    this.#responses += 1;
    this.#bodyBytes += (bytes - this.#bodyBytes) / Math.min(this.#responses, sampleCount);
    if (this.#phase === 'steady') {
      if (this.#responses % between === 0) this.#set(this.#needed());
      return;
    }
    this.#round += 1;
    if (this.#round >= this.count) this.#endRound();
  }

  /** Keeps the `concurrency` of a caller at {@link ConcurrencyController.count}. @returns a function that stops that */
  govern(governed: AdjustableConcurrency): () => void {
    this.#governed.add(governed);
    governed.concurrency = this.count;
    return () => this.#governed.delete(governed);
  }

  #endRound(): void {
    const nowMs = this.#now();
    if (this.#phase === 'restart' && nowMs - this.#doubledAt < restartStepMs) return;
    this.#round = 0;
    this.#doubledAt = nowMs;
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
    for (const controller of this.#governed) controller.concurrency = count;
    this.#serve();
  }

  #serve(): void {
    while (this.#waiters.size > 0 && this.#underWay < this.count) {
      this.#underWay += 1;
      this.#waiters.take()?.();
    }
  }
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? 0;
}

/** Under way at once unless `concurrency` says otherwise: connections, files and memory of a process have ends too. */
const mostByDefault = 512;
/** Under way at once before the latency is known, and at least: enough for a service that is near. */
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
/** A permit is in use from its request until a second after its answer has begun. */
const permitMs = 1_000;

/** How many requests under way at once use a limit: its answers a second times their latency (Little's law). */
export function neededAtOnce(limitPerSecond: number, latencyMs: number): number {
  return (limitPerSecond * latencyMs) / (permitMs + latencyMs);
}

/** The most requests that may be under way at once. @param concurrency as configured, if it is */
export function mostAtOnce({ concurrency }: { readonly concurrency?: number | undefined }): number {
  return concurrency ?? mostByDefault;
}

/** What {@link AtOnce} keeps up to date, such as a limiter of p-limit. */
export interface Governed {
  concurrency: number;
}

export interface AtOnceOptions {
  /** Requests a second that may be sent at present. */
  readonly limit: () => number;
  /** As configured; undefined: cdsync decides alone. */
  readonly concurrency: number | undefined;
  /** The memory for bodies. */
  readonly bodyBytes: number;
}

/**
 * How many requests of one group should be under way at once. It follows the latency of the answers and the budget: enough to
 * use the limit, no more than help, no more than the memory holds, never more than `concurrency`.
 */
export class AtOnce {
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
  readonly #governed = new Set<Governed>();
  #answers = 0;
  #bodyBytes = 0;

  constructor(options: AtOnceOptions) {
    this.#options = options;
    this.most = mostAtOnce(options);
    this.count = Math.min(fewest, this.most);
  }

  /** The latency that counts, in milliseconds; undefined before the first answers. */
  get latencyMs(): number | undefined {
    if (this.#latencies.length === 0) return undefined;
    const latency = median(this.#latencies);
    return (latency * mostSlowdown) / Math.max(mostSlowdown, median(this.#slowdowns));
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
    if (this.#answers % between === 0) this.#reckon();
  }

  /** Keeps the `concurrency` of something at {@link AtOnce.count}. @returns a function that ends that */
  govern(governed: Governed): () => void {
    this.#governed.add(governed);
    governed.concurrency = this.count;
    return () => this.#governed.delete(governed);
  }

  #reckon(): void {
    const useful = neededAtOnce(this.#options.limit(), this.latencyMs ?? 0) * headroom;
    const holds = (this.#options.bodyBytes * bodyShare) / Math.max(1, this.#bodyBytes);
    const count = Math.max(1, Math.min(Math.max(fewest, Math.ceil(useful)), Math.floor(holds), this.most));
    if (count === this.count) return;
    this.count = count;
    for (const each of this.#governed) each.concurrency = count;
  }
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? 0;
}

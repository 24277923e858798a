import { join } from 'node:path';
import { readStateIfUsable, sleep, z } from '../../src/sdk/index.js';
import { writeKept } from './kept-state.js';

interface RateLimit {
  readonly requests?: number | undefined;
  readonly records?: number | undefined;
  /** Milliseconds. */
  readonly per: number;
}

/** Spans of time that a window is counted in: a request that was sent in one of them counts until all of it is older than the window. */
const spans = 100;
/** The receiver's clock may run a little slower. */
const margin = 1.02;
const saveEveryMs = 250;
/** Limits that allow few requests are saved at every request: of these, a process that is killed may not forget any. */
const slowMs = 100;

type Counts = [span: number, count: number][];
const keptSchema = z.object({ limits: z.record(z.string(), z.array(z.tuple([z.number(), z.number()]))) });

/**
 * One limit in any sliding window, as the receiver counts it: a request arrived at some moment before its response arrived, so it
 * counts while it is under way and for a window after its end.
 */
class Window {
  readonly limit: RateLimit;
  counts: Counts;
  #underWay = 0;
  readonly #spanMs: number;

  constructor(limit: RateLimit, counts: Counts) {
    this.limit = limit;
    this.counts = counts;
    this.#spanMs = Math.max(1, (limit.per * margin) / spans);
  }

  /** How long a request of this many records must wait. */
  waitMs(records: number, nowMs: number): number {
    const { requests, records: most, per } = this.limit;
    // A batch larger than the limit goes alone.
    const allowed = requests ?? Math.max(most ?? 1, records);
    const current = Math.floor(nowMs / this.#spanMs);
    // A clock that was set back must not make a wait without end.
    this.counts = this.counts.filter(([span]) => (span + 1) * this.#spanMs > nowMs - per * margin && span <= current);
    let used = this.counts.reduce((sum, [, count]) => sum + count, this.#underWay) + this.#cost(records) - allowed;
    for (const [span, count] of this.counts) {
      if (used <= 0) return 0;
      used -= count;
      if (used <= 0) return (span + 1) * this.#spanMs + per * margin - nowMs;
    }
    // A request under way counts for a whole window from now on, at the least.
    return used <= 0 ? 0 : per;
  }

  begin(records: number): void {
    this.#underWay += this.#cost(records);
  }

  end(records: number, nowMs: number): void {
    this.#underWay -= this.#cost(records);
    const span = Math.floor(nowMs / this.#spanMs);
    const last = this.counts.at(-1);
    if (last?.[0] === span) last[1] += this.#cost(records);
    else this.counts.push([span, this.#cost(records)]);
  }

  /** The counts that a later run starts with: requests under way are in the current span. */
  kept(nowMs: number): Counts {
    return this.#underWay === 0 ? this.counts : [...this.counts, [Math.floor(nowMs / this.#spanMs), this.#underWay]];
  }

  #cost(records: number): number {
    return this.limit.requests === undefined ? records : 1;
  }
}

/** The limits of a destination. They count over retries and runs: the counts are kept in a file. */
export class Rate {
  readonly #windows: readonly Window[];
  readonly #path: string;
  readonly #saveEveryMs: number;
  #turn: Promise<void> = Promise.resolve();
  #pausedUntil = 0;
  #savedAt = 0;

  private constructor(windows: readonly Window[], path: string) {
    this.#windows = windows;
    this.#path = path;
    const isSlow = windows.some(({ limit: { requests, per } }) => per / (requests ?? per) >= slowMs);
    this.#saveEveryMs = isSlow ? 0 : saveEveryMs;
  }

  /** @param folder that is kept over runs */
  static async open(limits: readonly RateLimit[], folder: string): Promise<Rate> {
    const path = join(folder, 'rate.json');
    const kept = limits.length === 0 ? undefined : await readStateIfUsable(path, keptSchema);
    return new Rate(
      limits.map((limit) => new Window(limit, kept?.limits[JSON.stringify(limit)] ?? [])),
      path,
    );
  }

  /** Nothing more is sent before a moment (of `Date.now`). */
  pause(until: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, until);
  }

  /** Sends a request of this many records as soon as the limits allow it. Requests get their turns in order. */
  async send<Response>(records: number, signal: AbortSignal, request: () => Promise<Response>): Promise<Response> {
    await this.#begin(records, signal);
    try {
      return await request();
    } finally {
      for (const window of this.#windows) window.end(records, Date.now());
    }
  }

  async #begin(records: number, signal: AbortSignal): Promise<void> {
    if (this.#windows.length === 0 && this.#pausedUntil <= Date.now()) return;
    const turn = this.#turn.then(async () => {
      for (;;) {
        const nowMs = Date.now();
        const waitMs = Math.max(
          this.#pausedUntil - nowMs,
          ...this.#windows.map((window) => window.waitMs(records, nowMs)),
          0,
        );
        if (waitMs <= 0) break;
        await sleep(Math.ceil(waitMs), signal);
      }
      for (const window of this.#windows) window.begin(records);
      if (this.#windows.length > 0 && Date.now() - this.#savedAt >= this.#saveEveryMs) await this.#save();
    });
    this.#turn = turn.catch(() => undefined);
    await turn;
  }

  async #save(): Promise<void> {
    this.#savedAt = Date.now();
    const kept = this.#windows.map((window) => [JSON.stringify(window.limit), window.kept(this.#savedAt)]);
    await writeKept(this.#path, { limits: Object.fromEntries(kept) });
  }

  async close(): Promise<void> {
    if (this.#windows.length > 0) await this.#save();
  }
}

/** The shortest time in which some requests and records can be sent. */
export function minMs(limits: readonly RateLimit[], requests: number, records: number): number {
  const times = limits.map(({ requests: maxRequests, records: maxRecords, per }) => {
    const windows = maxRequests === undefined ? records / (maxRecords ?? 1) : requests / maxRequests;
    return Math.max(0, Math.ceil(windows) - 1) * per;
  });
  return Math.max(0, ...times);
}

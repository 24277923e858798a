import type { Clock } from '../../../src/core/clock.js';

const aborted = () => new DOMException('interrupted', 'AbortError');

/** Waits one turn of the event loop: then all promises that can settle have settled. */
export const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

interface Sleeper {
  readonly at: number;
  readonly wake: () => void;
}

/** A clock that moves only when the test moves it. Sleepers wake in order, exactly when due. */
export class ManualClock implements Clock {
  #time = 0;
  #sleepers: Sleeper[] = [];

  now(): number {
    return Date.UTC(2026, 0, 1) + this.#time;
  }

  monotonic(): number {
    return this.#time;
  }

  get sleeping(): number {
    return this.#sleepers.length;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(aborted());
      const sleeper = { at: this.#time + ms, wake: resolve };
      this.#sleepers.push(sleeper);
      signal?.addEventListener('abort', () => {
        this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
        reject(aborted());
      });
    });
  }

  async advance(ms: number): Promise<void> {
    const until = this.#time + ms;
    await turn();
    while (this.#wakeNext(until)) await turn();
    this.#time = until;
    await turn();
  }

  /** Lets time pass without waking anyone, as in a busy event loop. */
  oversleep(ms: number): void {
    this.#time += ms;
  }

  /** Moves on until no one sleeps. */
  async finish(): Promise<void> {
    await turn();
    while (this.#wakeNext(Number.POSITIVE_INFINITY)) await turn();
  }

  #wakeNext(until: number): boolean {
    let next: Sleeper | undefined;
    for (const sleeper of this.#sleepers) if (next === undefined || sleeper.at < next.at) next = sleeper;
    if (next === undefined || next.at > until) return false;
    const { at, wake } = next;
    this.#sleepers = this.#sleepers.filter((sleeper) => sleeper !== next);
    this.#time = Math.max(this.#time, at);
    wake();
    return true;
  }
}

/** A clock that jumps ahead instead of sleeping, and records each sleep. */
export class JumpingClock implements Clock {
  readonly slept: number[] = [];
  #time = 0;

  now(): number {
    return Date.UTC(2026, 0, 1) + this.#time;
  }

  monotonic(): number {
    return this.#time;
  }

  jump(ms: number): void {
    this.#time += ms;
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) throw aborted();
    this.slept.push(ms);
    this.#time += ms;
    await turn();
  }
}

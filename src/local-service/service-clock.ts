import { type Clock, systemClock } from '../core/clock.js';

/** The service's time of day, which tests can move. The monotonic time does not move with it. */
export class ServiceClock {
  readonly #clock: Clock;
  #offsetMs: number;
  #second = -1;
  #dateHeader = '';

  constructor(clock: Clock = systemClock, offsetMs = 0) {
    this.#clock = clock;
    this.#offsetMs = offsetMs;
  }

  get offsetMs(): number {
    return this.#offsetMs;
  }

  /** Milliseconds since the Unix epoch. */
  now(): number {
    return this.#clock.now() + this.#offsetMs;
  }

  monotonic(): number {
    return this.#clock.monotonic();
  }

  /** Resolves early, without an error, when the signal aborts. */
  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    await this.#clock.sleep(ms, signal).catch(() => undefined);
  }

  advance(ms: number): void {
    this.#offsetMs += ms;
  }

  /** The value of the `Date` header. */
  dateHeader(): string {
    const second = Math.floor(this.now() / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#dateHeader = new Date(second * 1000).toUTCString();
    }
    return this.#dateHeader;
  }
}

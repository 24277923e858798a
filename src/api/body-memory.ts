import { callEvery } from '../core/clock.js';
import { interrupted } from '../core/errors.js';
import { onAbort } from '../core/on-abort.js';
import { BufferPool, maxBodyBytes } from './response-body.js';
import { TransportError } from './transport-error.js';

/** While the process is busy, only the first body may grow beyond this: to read more of them in parallel would not be quicker. */
const busyBytes = 8_000_000;

/** A share of time with work above which the process is busy, and the period that it is measured over. */
const busyShare = 0.7;
const busyPeriodMs = 200;

/** Whether the main thread worked most of the time lately. */
function processorWatch(): () => boolean {
  let since = performance.eventLoopUtilization();
  let isBusy = false;
  return () => {
    const { active, idle, utilization } = performance.eventLoopUtilization(since);
    if (active + idle < busyPeriodMs) return isBusy;
    since = performance.eventLoopUtilization();
    isBusy = utilization > busyShare;
    return isBusy;
  };
}

/**
 * The memory for bodies of responses: those that are being read or inflated, and those that wait to be taken in. A body that
 * finds no memory waits, and its connection with it; while one waits, no new request should begin ({@link whenMemoryIsFree}).
 *
 * Nothing waits for ever: of the bodies that are not yet complete, the first one need not wait for the others, only
 * for whole bodies, which others take in without any request. So the bodies take `bytes`, and twice as much at the very
 * most, where many of unknown size have outgrown the memory together.
 */
export class BodyMemory {
  /** The bytes of all bodies together, and the most that one may have. */
  readonly bytes: number;
  readonly most: number;
  readonly pool = new BufferPool();
  readonly #isBusy: () => boolean;
  #used = 0;
  /** The part of it that whole bodies have. */
  #settled = 0;
  #waiting = 0;
  /** Bodies that are not yet whole, in the order in which their responses began. */
  readonly #growing = new Set<BodyAllocation>();
  /** While bodies wait: they may continue as soon as the process is no longer busy, even if no other body ends. */
  #timer: NodeJS.Timeout | undefined;
  #calm: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  /** @param isBusy whether the process, not the network, is what responses wait for */
  constructor(bytes: number, isBusy = processorWatch()) {
    this.bytes = bytes;
    this.#isBusy = isBusy;
    this.most = Math.min(bytes, maxBodyBytes);
  }

  /** Bytes in use at present. */
  get used(): number {
    return this.#used;
  }

  /** A place for the body of a response that begins now. */
  enter(): BodyAllocation {
    const place = new BodyAllocation(this);
    this.#growing.add(place);
    return place;
  }

  /** Undefined if no body waits for memory; otherwise a promise that resolves when there is memory for all. */
  get whenMemoryIsFree(): Promise<void> | undefined {
    if (this.#waiting === 0) return undefined;
    if (this.#calm === undefined) {
      let resolve = () => {};
      const promise = new Promise<void>((settle) => {
        resolve = settle;
      });
      this.#calm = { promise, resolve };
    }
    return this.#calm.promise;
  }

  /** For places only: gives `place` more bytes, now or later. @returns whether it has them now */
  grow(place: BodyAllocation, more: number): boolean {
    if (!this.#fits(place, more)) {
      this.#waiting += 1;
      this.#timer ??= callEvery(busyPeriodMs, () => this.#serve()).unref();
      return false;
    }
    this.#used += more;
    return true;
  }

  /** For places only: the body is whole, and no longer needs `spare` of its bytes. */
  settle(place: BodyAllocation, spare: number): void {
    this.#growing.delete(place);
    this.#used -= spare;
    this.#settled += place.bytes;
    this.#serve();
  }

  /** For places only: the body is gone. */
  leave(place: BodyAllocation): void {
    this.#used -= place.bytes;
    if (!this.#growing.delete(place)) this.#settled -= place.bytes;
    else if (place.wanted > 0) this.#waiting -= 1;
    this.#serve();
  }

  #fits(place: BodyAllocation, more: number): boolean {
    const used = this.#used + more;
    if (used <= this.bytes && (used <= busyBytes || !this.#isBusy())) return true;
    const isFirst = this.#growing.values().next().value === place;
    return isFirst && this.#settled + place.bytes + more <= this.bytes;
  }

  #serve(): void {
    for (const place of this.#growing) {
      const { wanted } = place;
      if (this.#waiting === 0) break;
      if (wanted === 0) continue;
      if (!this.#fits(place, wanted)) break;
      this.#used += wanted;
      this.#waiting -= 1;
      place.granted();
    }
    if (this.#waiting > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#calm?.resolve();
    this.#calm = undefined;
  }
}

/** The part of the memory that one body has. Its owner must {@link release} it in the end. */
export class BodyAllocation {
  readonly #memory: BodyMemory;
  #bytes = 0;
  #wanted = 0;
  #onFree: (() => void) | undefined;
  #isReleased = false;

  constructor(memory: BodyMemory) {
    this.#memory = memory;
  }

  /** The most that it may have. */
  get most(): number {
    return this.#memory.most;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The bytes that it waits for; 0 if it does not wait. */
  get wanted(): number {
    return this.#wanted;
  }

  /**
   * Asks for `bytes` in all. While it waits for some, further calls change nothing.
   * @param onFree called later if it must wait for them
   * @returns whether it has them now
   * @throws {TransportError} `too_large` if it may never have that much
   */
  claim(bytes: number, onFree: () => void): boolean {
    const more = bytes - this.#bytes;
    if (more <= 0 || this.#isReleased) return true;
    if (this.#wanted > 0) return false;
    if (bytes > this.most) throw new TransportError('too_large', undefined, this.most);
    if (this.#memory.grow(this, more)) {
      this.#bytes = bytes;
      return true;
    }
    this.#wanted = more;
    this.#onFree = onFree;
    return false;
  }

  /** Waits for `bytes` in all. @throws as {@link claim}; {CdsyncError} `interrupted` as soon as the signal aborts */
  async reserve(bytes: number, signal: AbortSignal): Promise<void> {
    let stay = () => {};
    try {
      await new Promise<void>((resolve, reject) => {
        if (this.claim(bytes, resolve)) resolve();
        else stay = onAbort(signal, () => reject(interrupted(signal.reason)));
      });
    } finally {
      stay();
    }
  }

  /** Called by the memory: the bytes that it waited for are its own. */
  granted(): void {
    this.#bytes += this.#wanted;
    this.#wanted = 0;
    const onFree = this.#onFree;
    this.#onFree = undefined;
    onFree?.();
  }

  /** The body is whole. It keeps its `bytes`, gives back all beyond them, and lets others grow. */
  settle(bytes: number): void {
    const spare = Math.max(0, this.#bytes - bytes);
    this.#bytes -= spare;
    this.#memory.settle(this, spare);
  }

  /** Gives everything back; later calls do nothing. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#memory.leave(this);
    this.#wanted = 0;
    this.#onFree = undefined;
  }
}

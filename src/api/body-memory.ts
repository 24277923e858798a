import { interrupted } from '../core/errors.js';
import { onAbort } from '../core/on-abort.js';
import { BufferPool, maxBodyBytes } from './response-body.js';
import { TransportError } from './transport-error.js';

/**
 * The memory for bodies of answers: those that are being read or inflated, and those that wait to be taken in. A body that
 * finds no room waits, and its connection with it; while one waits, no new request should begin ({@link calm}).
 *
 * Nothing waits for ever: of the bodies that are not yet whole, the one that came first need not wait for the others, only
 * for whole bodies, which others take in without any request. So the bodies take `bytes`, and twice as much at the very
 * most, where many of unknown size have outgrown the room together.
 */
export class BodyMemory {
  /** The bytes of all bodies together, and the most that one may have. */
  readonly bytes: number;
  readonly most: number;
  readonly pool = new BufferPool();
  #used = 0;
  /** The part of it that whole bodies have. */
  #settled = 0;
  #waiting = 0;
  /** Bodies that are not yet whole, in the order in which their answers began. */
  readonly #growing = new Set<BodyAllocation>();
  #calm: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  constructor(bytes: number) {
    this.bytes = bytes;
    this.most = Math.min(bytes, maxBodyBytes);
  }

  /** Bytes in use at present. */
  get used(): number {
    return this.#used;
  }

  /** A place for the body of an answer that begins now. */
  enter(): BodyAllocation {
    const place = new BodyAllocation(this);
    this.#growing.add(place);
    return place;
  }

  /** Undefined if no body waits for room; otherwise a promise of the moment when none does. */
  get calm(): Promise<void> | undefined {
    if (this.#waiting === 0) return undefined;
    if (this.#calm === undefined) {
      let resolve = () => {};
      const promise = new Promise<void>((given) => {
        resolve = given;
      });
      this.#calm = { promise, resolve };
    }
    return this.#calm.promise;
  }

  /** For places only: gives `place` more bytes, now or later. @returns whether it has them now */
  grow(place: BodyAllocation, more: number): boolean {
    if (!this.#fits(place, more)) {
      this.#waiting += 1;
      return false;
    }
    this.#used += more;
    return true;
  }

  /** For places only: the body is whole, and needs `spare` bytes of its own no more. */
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
    if (this.#used + more <= this.bytes) return true;
    const isFirst = this.#growing.values().next().value === place;
    return isFirst && this.#settled + place.bytes + more <= this.bytes;
  }

  #serve(): void {
    if (this.#waiting === 0) return;
    for (const place of this.#growing) {
      const { wanted } = place;
      if (wanted === 0) continue;
      if (!this.#fits(place, wanted)) break;
      this.#used += wanted;
      this.#waiting -= 1;
      place.granted();
    }
    if (this.#waiting > 0) return;
    this.#calm?.resolve();
    this.#calm = undefined;
  }
}

/** What one body has of the room. Whoever has it must {@link release} it in the end. */
export class BodyAllocation {
  readonly #room: BodyMemory;
  #bytes = 0;
  #wanted = 0;
  #onRoom: (() => void) | undefined;
  #isReleased = false;

  constructor(room: BodyMemory) {
    this.#room = room;
  }

  /** The most that it may have. */
  get most(): number {
    return this.#room.most;
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
   * @param onRoom called later if it must wait for them
   * @returns whether it has them now
   * @throws {TransportError} `too_large` if it may never have that much
   */
  claim(bytes: number, onRoom: () => void): boolean {
    const more = bytes - this.#bytes;
    if (more <= 0 || this.#isReleased) return true;
    if (this.#wanted > 0) return false;
    if (bytes > this.most) throw new TransportError('too_large', undefined, this.most);
    if (this.#room.grow(this, more)) {
      this.#bytes = bytes;
      return true;
    }
    this.#wanted = more;
    this.#onRoom = onRoom;
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

  /** For the room only: it has the bytes that it waited for. */
  granted(): void {
    this.#bytes += this.#wanted;
    this.#wanted = 0;
    const told = this.#onRoom;
    this.#onRoom = undefined;
    told?.();
  }

  /** The body is whole. It keeps its `bytes`, gives back what it has beyond them, and lets others grow. */
  settle(bytes: number): void {
    const spare = Math.max(0, this.#bytes - bytes);
    this.#bytes -= spare;
    this.#room.settle(this, spare);
  }

  /** Gives everything back; later calls do nothing. */
  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#room.leave(this);
    this.#wanted = 0;
    this.#onRoom = undefined;
  }
}

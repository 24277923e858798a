import { freeMemory } from '../core/free-memory.js';

/** No page is larger than this, however much memory there is. */
export const maxBodyBytes = 256_000_000;

/** The most bytes of a response's headers. Gateways add some; Node takes 16 kB by default. */
export const maxHeaderBytes = 64 * 1024;

/** The most bytes of a request's headers. Servers take 8 to 16 kB, and many end the connection instead of refusing more. */
export const maxSentHeaderBytes = 32 * 1024;

const smallest = 64 * 1024;
const nothing = Buffer.alloc(0);

/** No more memory than this waits for the next body. */
const maxIdleBytes = 16 * 1024 * 1024;

/**
 * Buffers for bodies, used again and again: memory outside of V8's heap drives its garbage collection, so a new buffer for
 * each page costs more than its allocation.
 */
export class BufferPool {
  readonly #idle: Buffer[] = [];
  #idleBytes = 0;
  /** Buffers in use, each by its memory. */
  readonly #lent = new WeakMap<ArrayBufferLike, Buffer>();

  /** A buffer of at least `bytes`. Its content is left over from before. */
  lend(bytes: number): Buffer {
    const place = this.#idle.findIndex(({ length }) => length >= bytes && length <= 2 * Math.max(bytes, smallest));
    const [idle] = place < 0 ? [] : this.#idle.splice(place, 1);
    if (idle !== undefined) this.#idleBytes -= idle.length;
    const buffer = idle ?? Buffer.allocUnsafeSlow(Math.ceil(bytes / smallest) * smallest);
    this.#lent.set(buffer.buffer, buffer);
    return buffer;
  }

  /** Gives back all memory that is not lent. */
  free(): void {
    for (const { buffer } of this.#idle.splice(0)) freeMemory(buffer as ArrayBuffer);
    this.#idleBytes = 0;
  }

  /** Takes the memory of a body back: no one may look at it again. Does nothing if it is not from here, or is already back. */
  giveBack({ buffer: memory }: Buffer): void {
    const buffer = this.#lent.get(memory);
    if (buffer === undefined) return;
    this.#lent.delete(memory);
    if (this.#idleBytes + buffer.length > maxIdleBytes) return;
    this.#idle.push(buffer);
    this.#idleBytes += buffer.length;
  }
}

/**
 * The whole body of a response, decompressed. It counts against the memory for bodies until its owner disposes of it: the client, or
 * the caller of {@link ServiceClient.sendPage}.
 */
export class ResponseBody {
  readonly bytes: Buffer;
  #end: ((isReusable: boolean) => void) | undefined;

  /** @param end called once; `isReusable`: no code reads the bytes again, so another response may be written into their memory */
  constructor(bytes: Buffer, end: (isReusable: boolean) => void) {
    this.bytes = bytes;
    this.#end = end;
  }

  /** Ends the ownership; later calls do nothing. @param reuse if all needed bytes are copied, so that their memory may be reused */
  dispose(reuse?: 'reuse'): void {
    const end = this.#end;
    this.#end = undefined;
    end?.(reuse !== undefined);
  }
}

/**
 * Collects a body in one buffer. A list of chunks would take the memory twice in the end, and much more where each chunk
 * has few bytes.
 */
export class BodyBuilder {
  readonly #stated: number;
  readonly #pool: BufferPool;
  #bytes: Buffer = nothing;
  #size = 0;

  /** @param stated the length of the body by its headers; 0 if they do not say */
  constructor(stated: number, pool: BufferPool) {
    this.#stated = stated;
    this.#pool = pool;
  }

  get size(): number {
    return this.#size;
  }

  add(chunk: Buffer): void {
    const size = this.#size + chunk.length;
    // Most small bodies come in one chunk, which needs no copy.
    if (this.#size === 0 && chunk.length >= this.#stated) this.#bytes = chunk;
    else {
      if (size > this.#bytes.length) this.#grow(size);
      this.#bytes.set(chunk, this.#size);
    }
    this.#size = size;
  }

  /** The body so far. */
  whole(): Buffer {
    return this.#size === this.#bytes.length ? this.#bytes : this.#bytes.subarray(0, this.#size);
  }

  #grow(size: number): void {
    const grown = this.#pool.lend(Math.max(this.#stated, size, 2 * this.#bytes.length, smallest));
    grown.set(this.#size === this.#bytes.length ? this.#bytes : this.#bytes.subarray(0, this.#size));
    this.#pool.giveBack(this.#bytes);
    this.#bytes = grown;
  }
}

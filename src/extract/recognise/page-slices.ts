import type { KnownSet } from '../../rows/known-set.js';
import { hashWords, type RecordHash } from '../../rows/raw-hash.js';
import { skipSpace } from '../scan/json-bytes.js';
import type { Separator } from './separator.js';

/** In place of a slot: the slice is not known. */
export const unknown = -1;

/**
 * The slices of a page that may be its records, each looked up in the known set. A guess is only as good as its separator:
 * take the known slices for records only if a scanner confirms that each unknown one is a whole record. Then every slice begins
 * where a record surely begins, and bytes that are known are known as a whole record.
 */
export class PageSlices {
  readonly #known: KnownSet;
  readonly #hash: RecordHash;
  #bounds = new Uint32Array(2048);
  #slots = new Int32Array(1024);
  #hashes = new Uint32Array(4096);
  #count = 0;
  #unknown = 0;

  constructor(known: KnownSet, hash: RecordHash) {
    this.#known = known;
    this.#hash = hash;
  }

  /** Number of slices of the last page. */
  get count(): number {
    return this.#count;
  }
  /** Number of slices of the last page that are not known. */
  get unknown(): number {
    return this.#unknown;
  }
  /** Where each slice of the last page begins and ends. */
  get bounds(): Uint32Array {
    return this.#bounds;
  }
  /** The slot of each slice of the last page in the known set, or {@link unknown}. */
  get slots(): Int32Array {
    return this.#slots;
  }
  /** The hash of each slice of the last page. */
  get hashes(): Uint32Array {
    return this.#hashes;
  }

  /** Cuts a list at its separators. @param from where the inside of the list begins; it ends at `to` */
  guess(body: Buffer, from: number, to: number, { bytes, before, next }: Separator): void {
    this.#count = 0;
    let begin = skipSpace(body, from);
    let last = to;
    while (last > begin && skipSpace(body, last - 1) >= last) last -= 1;
    while (begin < last) {
      const found = body.indexOf(bytes, begin);
      const isLast = found < 0 || found + bytes.length > last;
      this.#add(begin, isLast ? last : found + before);
      begin = isLast ? last : found + next;
    }
    this.#lookUp(body);
  }

  /** Takes slices that a scanner has found. @param bounds where each begins and ends */
  take(body: Buffer, bounds: Uint32Array): void {
    this.#count = 0;
    for (let at = 0; at < bounds.length; at += 2) this.#add(bounds[at] as number, bounds[at + 1] as number);
    this.#lookUp(body);
  }

  #lookUp(body: Buffer): void {
    const view = new DataView(body.buffer, body.byteOffset, body.length);
    const [bounds, hashes, slots, count] = [this.#bounds, this.#hashes, this.#slots, this.#count];
    for (let index = 0; index < count; index += 1)
      this.#hash.write(view, bounds[2 * index] as number, bounds[2 * index + 1] as number, hashes, index * hashWords);
    // All hashes first: the look-ups then wait for memory side by side.
    let missing = 0;
    for (let index = 0; index < count; index += 1) {
      const slot = this.#known.find(hashes, index * hashWords);
      slots[index] = slot;
      if (slot === unknown) missing += 1;
    }
    this.#unknown = missing;
  }

  #add(from: number, to: number): void {
    if (this.#count === this.#slots.length) this.#grow();
    this.#bounds[2 * this.#count] = from;
    this.#bounds[2 * this.#count + 1] = to;
    this.#count += 1;
  }

  #grow(): void {
    const bounds = new Uint32Array(this.#bounds.length * 2);
    bounds.set(this.#bounds);
    this.#bounds = bounds;
    this.#slots = new Int32Array(this.#slots.length * 2);
    this.#hashes = new Uint32Array(this.#hashes.length * 2);
  }
}

import type { KnownSet } from './known-set.js';
import { hashWords, type RawHash } from './raw-hash.js';
import type { Separator } from './separator.js';

const none = -1;

/**
 * Guesses where the records of a page begin and end, and looks each of them up. A guess is only as good as its separator:
 * take the known ones for records only if a scanner confirms that each unknown slice is one whole record. Then every slice
 * begins where a record surely begins, and bytes that are known are known as a whole record.
 */
export class PageRecogniser {
  readonly #known: KnownSet;
  readonly #hash: RawHash;
  readonly #separator: Separator;
  #bounds = new Uint32Array(2048);
  #slots = new Int32Array(1024);
  #hashes = new Uint32Array(4096);
  #records = 0;
  #unknown = 0;

  constructor(known: KnownSet, hash: RawHash, separator: Separator) {
    this.#known = known;
    this.#hash = hash;
    this.#separator = separator;
  }

  /** Number of slices of the last page. */
  get records(): number {
    return this.#records;
  }
  /** Number of slices of the last page that are not known. */
  get unknown(): number {
    return this.#unknown;
  }
  /** Where each slice of the last page begins and ends. */
  get bounds(): Uint32Array {
    return this.#bounds.subarray(0, this.#records * 2);
  }
  /** The slot of each slice of the last page in the known set, -1 for an unknown one. */
  get slots(): Int32Array {
    return this.#slots.subarray(0, this.#records);
  }

  /** @param from where the inside of the list begins; it ends at `to` */
  read(body: Buffer, from: number, to: number): void {
    this.#cut(body, from, to);
    const view = new DataView(body.buffer, body.byteOffset, body.length);
    const [bounds, hashes, slots] = [this.#bounds, this.#hashes, this.#slots];
    const records = this.#records;
    for (let index = 0; index < records; index += 1)
      this.#hash.write(view, bounds[2 * index] as number, bounds[2 * index + 1] as number, hashes, index * hashWords);
    // All hashes first: the look-ups then wait for memory side by side.
    let unknown = 0;
    for (let index = 0; index < records; index += 1) {
      const slot = this.#known.find(hashes, index * hashWords);
      slots[index] = slot;
      if (slot === none) unknown += 1;
    }
    this.#unknown = unknown;
  }

  #cut(body: Buffer, from: number, to: number): void {
    const { bytes, before } = this.#separator;
    this.#records = 0;
    let begin = from;
    while (begin < to) {
      const found = body.indexOf(bytes, begin);
      const end = found < 0 || found + bytes.length > to ? to : found + before;
      this.#add(begin, end);
      begin = end + 1;
    }
  }

  #add(from: number, to: number): void {
    if (this.#records === this.#slots.length) this.#grow();
    this.#bounds[2 * this.#records] = from;
    this.#bounds[2 * this.#records + 1] = to;
    this.#records += 1;
  }

  #grow(): void {
    const bounds = new Uint32Array(this.#bounds.length * 2);
    bounds.set(this.#bounds);
    this.#bounds = bounds;
    this.#slots = new Int32Array(this.#slots.length * 2);
    this.#hashes = new Uint32Array(this.#hashes.length * 2);
  }
}

import { hashWords } from '../columns/record-hash.js';
import { freeMemory } from '../core/free-memory.js';

/** The share of slots that a new table fills. A fuller table is slower to search. */
const fill = 0.72;
/** The share that later additions may fill, so that a growing list does not need a new table in each run. */
const maxLoadFactor = 0.8;
/** Empty slots that even a small table has, so that each search ends. */
const spareSlots = 8;

/**
 * A set of 128-bit hashes in an open-addressing table. Its memory is its image on disk. A slot is empty if its second word is 0; see
 * RecordHasher.
 */
export class RecordHashTable {
  #words: Uint32Array;
  readonly slots: number;
  #count: number;
  /** Maps a hash's first word to a slot: the largest word to the last slot. */
  #scale: number;

  /** @param image the words of an earlier table */
  constructor(image: Uint32Array, count: number) {
    this.#words = image;
    this.slots = image.length / hashWords;
    this.#count = count;
    this.#scale = this.slots / 2 ** 32;
    if (!Number.isInteger(this.slots) || !this.#fits(count))
      throw new RangeError(`${count} hashes do not fit into ${this.slots} slots`);
  }

  /** An empty table. @param capacity number of hashes that will be added */
  static empty(capacity: number): RecordHashTable {
    return new RecordHashTable(new Uint32Array(RecordHashTable.bytesFor(capacity) / Uint32Array.BYTES_PER_ELEMENT), 0);
  }

  /** The memory of an empty table. */
  static bytesFor(capacity: number): number {
    return (Math.ceil(capacity / fill) + spareSlots) * hashWords * Uint32Array.BYTES_PER_ELEMENT;
  }

  /** Four words for each slot. */
  get words(): Uint32Array {
    return this.#words;
  }

  /** Gives its memory back. From now on it finds nothing. */
  free(): void {
    const { buffer } = this.#words;
    // One empty slot, where every search ends.
    this.#words = new Uint32Array(hashWords);
    this.#scale = 0;
    this.#count = 0;
    freeMemory(buffer as ArrayBuffer);
  }

  get count(): number {
    return this.#count;
  }

  /** Adds the hash whose words begin at `at`; false if the table has it already. */
  add(hash: Uint32Array, at: number): boolean {
    const { words } = this;
    const place = this.#search(hash, at);
    if (words[place + 1] !== 0) return false;
    if (!this.#fits(this.#count + 1)) throw new RangeError(`more than ${this.#count} hashes in a table`);
    for (let word = 0; word < hashWords; word += 1) words[place + word] = hash[at + word] as number;
    this.#count += 1;
    return true;
  }

  /** Whether that many more hashes fit in. */
  hasCapacity(more: number): boolean {
    return this.#fits(this.#count + more);
  }

  #fits(count: number): boolean {
    return Math.ceil(count / maxLoadFactor) + spareSlots <= this.slots;
  }

  /** Removes the hash whose words begin at `at`; false if the table does not have it. Later hashes may change their slot. */
  remove(hash: Uint32Array, at: number): boolean {
    const { words } = this;
    let hole = this.#search(hash, at);
    if (words[hole + 1] === 0) return false;
    // A search ends at the first empty slot, so a hash that it would no longer reach moves into the hole.
    for (let place = this.#after(hole); words[place + 1] !== 0; place = this.#after(place)) {
      const home = Math.floor((words[place] as number) * this.#scale) * hashWords;
      const isReached = hole <= place ? home > hole && home <= place : home > hole || home <= place;
      if (isReached) continue;
      words.copyWithin(hole, place, place + hashWords);
      hole = place;
    }
    words.fill(0, hole, hole + hashWords);
    this.#count -= 1;
    return true;
  }

  #after(place: number): number {
    return place + hashWords === this.words.length ? 0 : place + hashWords;
  }

  /** The slot of the hash whose words begin at `at`; -1 if the table does not have it. */
  find(hash: Uint32Array, at: number): number {
    const place = this.#search(hash, at);
    return this.words[place + 1] === 0 ? -1 : place / hashWords;
  }

  /** Index of the first word of the hash's slot, or of the empty slot that ends the search. */
  #search(hash: Uint32Array, at: number): number {
    const { words } = this;
    const a = hash[at] as number;
    const b = hash[at + 1] as number;
    const c = hash[at + 2] as number;
    const d = hash[at + 3] as number;
    let place = Math.floor(a * this.#scale) * hashWords;
    for (;;) {
      const second = words[place + 1];
      if (second === 0) return place;
      if (second === b && words[place] === a && words[place + 2] === c && words[place + 3] === d) return place;
      place = this.#after(place);
    }
  }

  /** Whether a slot has a hash; its words begin at `slot * hashWords`. */
  has(slot: number): boolean {
    return (this.words[slot * hashWords + 1] ?? 0) !== 0;
  }
}

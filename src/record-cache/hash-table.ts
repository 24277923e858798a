import { hashWords } from '../columns/record-hash.js';

/** The share of the slots that is taken in a new set. Fuller tables take longer to search. */
const fill = 0.72;
/** The share that may be taken after more hashes came: a list that grows a little need not get a new set each night. */
const fullest = 0.8;
/** No probe of a small table shall run around it for ever. */
const spareSlots = 8;

/** How many slots a set of this many hashes needs. */
function tableCapacity(count: number): number {
  return Math.ceil(count / fill) + spareSlots;
}

/**
 * A set of 128-bit hashes in an open-addressing table. Its memory is its image on disk. A slot whose second word is 0 is
 * empty; see RecordHasher.
 */
export class RecordHashTable {
  /** Four words for each slot. */
  readonly words: Uint32Array;
  readonly slots: number;
  #count: number;
  /** The upper end of the first word's range is mapped to the last slot. */
  readonly #scale: number;

  /** @param image the words of an earlier set */
  constructor(image: Uint32Array, count: number) {
    this.words = image;
    this.slots = image.length / hashWords;
    this.#count = count;
    this.#scale = this.slots / 2 ** 32;
    if (!Number.isInteger(this.slots) || !this.#hasRoomFor(count))
      throw new RangeError(`${count} hashes do not fit into ${this.slots} slots`);
  }

  /** @param most how many hashes will be added */
  static empty(most: number): RecordHashTable {
    return new RecordHashTable(new Uint32Array(tableCapacity(most) * hashWords), 0);
  }

  get count(): number {
    return this.#count;
  }

  /** Adds the hash whose words begin at `at`; false if the set has it already. */
  add(hash: Uint32Array, at: number): boolean {
    const { words } = this;
    const place = this.#search(hash, at);
    if (words[place + 1] !== 0) return false;
    if (!this.#hasRoomFor(this.#count + 1)) throw new RangeError(`more than ${this.#count} hashes in a set`);
    for (let word = 0; word < hashWords; word += 1) words[place + word] = hash[at + word] as number;
    this.#count += 1;
    return true;
  }

  /** Whether that many more hashes fit in. */
  hasRoom(more: number): boolean {
    return this.#hasRoomFor(this.#count + more);
  }

  #hasRoomFor(count: number): boolean {
    return Math.ceil(count / fullest) + spareSlots <= this.slots;
  }

  /** Removes the hash whose words begin at `at`; false if the set does not have it. Later slots may move. */
  remove(hash: Uint32Array, at: number): boolean {
    const { words } = this;
    let hole = this.#search(hash, at);
    if (words[hole + 1] === 0) return false;
    // A search stops at the first empty slot, so what it would no longer reach moves into the hole.
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

  /** The slot of the hash whose words begin at `at`; -1 if the set does not have it. */
  find(hash: Uint32Array, at: number): number {
    const place = this.#search(hash, at);
    return this.words[place + 1] === 0 ? -1 : place / hashWords;
  }

  /** The place of the first word of the hash, or of the empty slot that ends the search. */
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
    return this.words[slot * hashWords + 1] !== 0;
  }
}

import { hashWords, type RecordHash } from '../columns/record-hash.js';
import { jsonBytes } from '../extract/scan/bytes.js';
import { skipSpace } from '../extract/scan/json-bytes.js';
import type { RecordHashTable } from './hash-table.js';

const { closeBrace, closeBracket, comma, openBrace, quote } = jsonBytes;

/** How much of a record's beginning may belong to a separator. */
const longestPrefix = 64;

/**
 * The bytes between two records of a list, as far as all records have them: the closing brackets of one, the comma, and
 * the next one's beginning up to the first value (`}},{"id":`). Where they stand, a record probably ends.
 */
export interface RecordSeparator {
  readonly bytes: Buffer;
  /** How many of the bytes belong to the record before the comma. */
  readonly before: number;
  /** At which of the bytes the next record begins. */
  readonly next: number;
}

/**
 * Finds the separator of a list from two records that follow each other in it, with a comma and spaces between them.
 * @param first where the first of them begins; it ends at `end`, and the second begins at `next`
 * @returns undefined if the records are not objects that begin with a member
 */
export function findSeparator(body: Buffer, first: number, end: number, next: number): RecordSeparator | undefined {
  if (body[next] !== openBrace || !onlyCommaBetween(body, end, next)) return undefined;
  let from = end;
  while (from > first + 1 && (body[from - 1] === closeBrace || body[from - 1] === closeBracket)) from -= 1;
  const label = endOfName(body, next);
  if (from === end || label === undefined) return undefined;
  return { bytes: Buffer.from(body.subarray(from, label)), before: end - from, next: next - from };
}

function onlyCommaBetween(body: Buffer, from: number, to: number): boolean {
  const at = skipSpace(body, from);
  return body[at] === comma && skipSpace(body, at + 1) === to;
}

/** The position after the closing quote of an object's first name. */
function endOfName(body: Buffer, object: number): number | undefined {
  const open = skipSpace(body, object + 1);
  if (body[open] !== quote) return undefined;
  const close = body.indexOf(quote, open + 1);
  return close < 0 || close - object > longestPrefix ? undefined : close + 1;
}

/** In place of a slot: the slice is not known. */
export const unknown = -1;

/**
 * The slices of a page that may be its records, each looked up in the known set. A guess is only as good as its separator:
 * take the known slices for records only if a scanner confirms that each unknown one is a whole record. Then every slice begins
 * where a record surely begins, and bytes that are known are known as a whole record.
 */
export class RecordRanges {
  readonly #known: RecordHashTable;
  readonly #hash: RecordHash;
  #bounds = new Uint32Array(2048);
  #slots = new Int32Array(1024);
  #hashes = new Uint32Array(4096);
  #count = 0;
  #unknown = 0;

  constructor(known: RecordHashTable, hash: RecordHash) {
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
  guess(body: Buffer, from: number, to: number, { bytes, before, next }: RecordSeparator): void {
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

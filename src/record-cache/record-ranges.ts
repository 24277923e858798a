import { hashWords, type RecordHash } from '../columns/record-hash.js';
import { jsonBytes } from '../extract/scan/bytes.js';
import { skipSpace } from '../extract/scan/json-bytes.js';
import type { RecordHashTable } from './hash-table.js';

const { closeBrace, closeBracket, comma, openBrace, quote } = jsonBytes;

/** A separator contains at most this many bytes of the next record. */
const maxPrefixLength = 64;

/**
 * The bytes between two records that are the same in the whole list: the closing brackets, the comma, and the next record up to its
 * first value (`}},{"id":`). A record probably ends at each occurrence.
 */
export interface RecordSeparator {
  readonly bytes: Buffer;
  /** Number of the bytes that belong to the record before the comma. */
  readonly before: number;
  /** Index of the byte at which the next record begins. */
  readonly next: number;
}

/**
 * Finds the separator of a list from two adjacent records with a comma and white space between them.
 * @param first start of the first record; it ends at `end`, and the second begins at `next`
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
  return close < 0 || close - object > maxPrefixLength ? undefined : close + 1;
}

/** In place of a slot: the range is not in the cache. */
export const missed = -1;

/**
 * Ranges of a page that are probably its records, each looked up in the hash table of the record cache. The guess depends on the
 * separator: hits count as records only after a scanner confirmed that each missed range is one whole record. Then every range
 * begins at a record, and the bytes of a hit were a whole record before.
 */
export class RecordRanges {
  readonly #table: RecordHashTable;
  readonly #hash: RecordHash;
  #bounds = new Uint32Array(2048);
  #slots = new Int32Array(1024);
  #hashes = new Uint32Array(4096);
  #count = 0;
  #misses = 0;

  constructor(table: RecordHashTable, hash: RecordHash) {
    this.#table = table;
    this.#hash = hash;
  }

  /** Number of ranges of the last page. */
  get count(): number {
    return this.#count;
  }
  /** Number of ranges of the last page that are not in the cache. */
  get misses(): number {
    return this.#misses;
  }
  /** Start and end of each range of the last page. */
  get bounds(): Uint32Array {
    return this.#bounds;
  }
  /** The slot of each range of the last page in the hash table, or {@link missed}. */
  get slots(): Int32Array {
    return this.#slots;
  }
  /** The hash of each range of the last page. */
  get hashes(): Uint32Array {
    return this.#hashes;
  }

  /** Cuts a list at its separators. @param from start of the list's content; it ends at `to` */
  guess(body: Buffer, from: number, to: number, { bytes, before, next }: RecordSeparator): void {
    this.#count = 0;
    let begin = skipSpace(body, from);
    let last = to;
    while (last > begin && skipSpace(body, last - 1) >= last) last -= 1;
    while (begin < last) {
      const place = body.indexOf(bytes, begin);
      const isLast = place < 0 || place + bytes.length > last;
      this.#add(begin, isLast ? last : place + before);
      begin = isLast ? last : place + next;
    }
    this.#lookUp(body);
  }

  /** Takes the ranges of a scanner. @param bounds start and end of each */
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
    // The look-ups run after all hashes, so that their waits for memory overlap.
    let misses = 0;
    for (let index = 0; index < count; index += 1) {
      const slot = this.#table.find(hashes, index * hashWords);
      slots[index] = slot;
      if (slot === missed) misses += 1;
    }
    this.#misses = misses;
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

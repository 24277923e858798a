import { hashWords, type RecordHash } from '../columns/record-hash.js';
import { jsonBytes } from '../extract/scan/bytes.js';
import type { PageCut } from '../extract/scan/page-cutter.js';
import { MalformedPageError, type PageScanner, RecordOutcome, type ScannedPage } from '../extract/scan/scanned-page.js';
import type { RecordHashTable } from './hash-table.js';
import { findSeparator, missed, RecordRanges, type RecordSeparator } from './record-ranges.js';

/** Hits of a page with no kept row between them. */
interface HitRun {
  /** Number of kept rows of the page before them. */
  readonly rowsBefore: number;
  /** Their slots in the hash table. */
  readonly slots: readonly number[];
}

/** A page after the look-up: its cache hits, and the other records, scanned. */
export interface LookedUpPage extends ScannedPage {
  /** Number of hits; they are not among {@link ScannedPage.records}. */
  readonly hits: number;
  readonly hitRuns: readonly HitRun[];
  /** Whether a record was hit for the first time in this run. */
  readonly hasNewHits: boolean;
  /** Two 32-bit hashes of each hit. */
  readonly hitHashes: Uint32Array;
  /** The hash of each kept record, four words each; zeros if the record must not enter the cache. */
  readonly raw: Uint32Array;
}

type Page = Pick<PageCut, 'start' | 'end'> & { readonly body: Buffer };

/** The place of a page in its chain, and the chain's filter. */
export interface PageView {
  /** The first page of its chain. */
  readonly isFirst: boolean;
  /** Records must match a filter. */
  readonly isFiltered: boolean;
}

/** Least size of the buffer for the missed records of a page, and the largest unused size that is kept. */
const minJoinedBytes = 1 << 16;
const maxSpareBytes = 1 << 24;
const none = new Uint32Array(0);
const { closeBracket, comma } = jsonBytes;

/**
 * Finds the records of a page whose bytes are those of the last snapshot: they need no conversion. The scanner gets all others. Bytes
 * count as a record only if a scanner found them to be one, now or in an earlier run.
 */
export class RecordCache {
  readonly #hash: RecordHash;
  readonly #table: RecordHashTable | undefined;
  readonly #ranges: RecordRanges | undefined;
  /** One bit for each slot: whether its record was hit in this run. */
  #hits: Uint8Array;
  #separator: RecordSeparator | undefined;
  /** The missed records of a page, joined. They are written to a staging file before the next page is scanned. */
  #joined = Buffer.alloc(0);

  /** @param base the hashes of an earlier run; undefined: records are only hashed, for the next run */
  constructor(
    hash: RecordHash,
    base?: { readonly table: RecordHashTable; readonly separator: RecordSeparator | undefined },
  ) {
    this.#hash = hash;
    this.#table = base?.table;
    this.#separator = base?.separator;
    this.#ranges = base && new RecordRanges(base.table, hash);
    this.#hits = new Uint8Array(Math.ceil((base?.table.slots ?? 0) / 8));
  }

  /** The separator of the stream's records, once it is known. */
  get separator(): RecordSeparator | undefined {
    return this.#separator;
  }

  /** The hashes of the last snapshot's records. */
  get table(): RecordHashTable | undefined {
    return this.#table;
  }

  /** Whether the record of this slot was hit in this run. */
  hasHit(slot: number): boolean {
    return ((this.#hits[slot >> 3] as number) & (1 << (slot & 7))) !== 0;
  }

  /** Notes that the record of this slot was hit. */
  addHit(slot: number): void {
    this.#hits[slot >> 3] = (this.#hits[slot >> 3] as number) | (1 << (slot & 7));
  }

  /** Removes all hits. */
  clearHits(): void {
    this.#hits = new Uint8Array(this.#hits.length);
  }

  /** Looks up the records of a page, and scans the others. @throws {MalformedPageError} as the scanner */
  scan(scanner: PageScanner, page: Page, view: PageView): LookedUpPage {
    const ranges = this.#ranges;
    if (ranges === undefined) return this.scanAll(scanner, page);
    return this.#scanBySeparator(scanner, page, view, ranges) ?? this.#scanByBounds(scanner, page, ranges);
  }

  /** Cuts the page where the separator occurs. Undefined if that was wrong, or if the filter must be checked on every record. */
  #scanBySeparator(scanner: PageScanner, page: Page, view: PageView, ranges: RecordRanges): LookedUpPage | undefined {
    if (this.#separator === undefined) return undefined;
    ranges.guess(page.body, page.start, page.end, this.#separator);
    if (ranges.misses === ranges.count && ranges.count > 0) return this.scanAll(scanner, page);
    if (view.isFiltered && (view.isFirst || this.#hasRepeatedHit(ranges))) return undefined;
    return this.#scanMisses(scanner, page, ranges);
  }

  /** Scans the page whole, and cuts it where the scanner found records. */
  #scanByBounds(scanner: PageScanner, page: Page, ranges: RecordRanges): LookedUpPage {
    const whole = this.scanAll(scanner, page);
    if (whole.mismatches > 0) return whole;
    ranges.take(page.body, whole.bounds);
    if (ranges.misses === ranges.count) return whole;
    return this.#scanMisses(scanner, page, ranges) ?? this.scanAll(scanner, page);
  }

  /** Scans all records, and hashes them for the next run. */
  scanAll(scanner: PageScanner, { body, start, end }: Page): LookedUpPage {
    const scanned = scanner.scan(body, start, end);
    const view = new DataView(body.buffer, body.byteOffset, body.length);
    const { bounds, outcomes } = scanned;
    const raw = new Uint32Array(scanned.records * hashWords);
    let row = 0;
    for (let index = 0; index < outcomes.length; index += 1) {
      if (outcomes[index] === RecordOutcome.rejected) continue;
      if (outcomes[index] === RecordOutcome.kept)
        this.#hash.write(view, bounds[2 * index] as number, bounds[2 * index + 1] as number, raw, row * hashWords);
      row += 1;
    }
    this.#learnSeparator(body, scanned);
    return { ...scanned, hits: 0, hitRuns: [], hasNewHits: false, hitHashes: none, raw };
  }

  #learnSeparator(body: Buffer, { bounds, outcomes }: ScannedPage): void {
    if (this.#separator !== undefined || outcomes.length < 2) return;
    const [first, end, next] = [bounds[0] as number, bounds[1] as number, bounds[2] as number];
    this.#separator = findSeparator(body, first, end, next);
  }

  #hasRepeatedHit(ranges: RecordRanges): boolean {
    for (let index = 0; index < ranges.count; index += 1) {
      const slot = ranges.slots[index] as number;
      if (slot !== missed && this.hasHit(slot)) return true;
    }
    return false;
  }

  /** Scans the missed ranges; undefined unless each of them is one record. */
  #scanMisses(scanner: PageScanner, { body }: Page, ranges: RecordRanges): LookedUpPage | undefined {
    const length = this.#join(body, ranges);
    let scanned: ScannedPage;
    try {
      scanned = scanner.scan(this.#joined, 0, length);
    } catch (error) {
      if (error instanceof MalformedPageError) return undefined;
      throw error;
    }
    return this.#areRecords(ranges, scanned) ? this.#combine(ranges, scanned) : undefined;
  }

  /** Joins the missed ranges as the content of a list. Returns its length. */
  #join(body: Buffer, { count, bounds, slots }: RecordRanges): number {
    let needed = 0;
    for (let index = 0; index < count; index += 1)
      if (slots[index] === missed) needed += (bounds[2 * index + 1] as number) - (bounds[2 * index] as number) + 1;
    // One byte for the bracket if nothing was missed.
    if (Math.max(1, needed) > this.#joined.length || this.#joined.length > Math.max(maxSpareBytes, 2 * needed))
      this.#joined = Buffer.allocUnsafe(needed > maxSpareBytes ? needed : Math.max(minJoinedBytes, needed * 2));
    let length = 0;
    for (let index = 0; index < count; index += 1) {
      if (slots[index] !== missed) continue;
      if (length > 0) this.#joined[length++] = comma;
      length += body.copy(this.#joined, length, bounds[2 * index], bounds[2 * index + 1]);
    }
    // A scanner skips white space after the last record, so no bytes of an earlier page may follow.
    this.#joined[length] = closeBracket;
    return length;
  }

  /** Whether each missed range is exactly one of the scanned records. */
  #areRecords({ count, misses, bounds, slots }: RecordRanges, scanned: ScannedPage): boolean {
    if (scanned.outcomes.length !== misses) return false;
    let [record, at] = [0, 0];
    for (let index = 0; index < count; index += 1) {
      if (slots[index] !== missed) continue;
      const to = at + (bounds[2 * index + 1] as number) - (bounds[2 * index] as number);
      if (scanned.bounds[2 * record] !== at || scanned.bounds[2 * record + 1] !== to) return false;
      record += 1;
      at = to + 1;
    }
    return true;
  }

  /** The page out of its hits and its scanned misses. */
  #combine({ count, slots, hashes, misses }: RecordRanges, scanned: ScannedPage): LookedUpPage {
    const hits = count - misses;
    const hitHashes = new Uint32Array(hits * 2);
    const raw = new Uint32Array(scanned.records * hashWords);
    const hitRuns: { rowsBefore: number; slots: number[] }[] = [];
    const positionsOfMisses: number[] = [];
    let hasNewHits = false;
    let [rows, word] = [0, 0];
    for (let position = 0; position < count; position += 1) {
      const slot = slots[position] as number;
      const hash = position * hashWords;
      if (slot === missed) {
        const outcome = scanned.outcomes[positionsOfMisses.length];
        positionsOfMisses.push(position);
        if (outcome === RecordOutcome.kept) raw.set(hashes.subarray(hash, hash + hashWords), rows * hashWords);
        if (outcome !== RecordOutcome.rejected) rows += 1;
        continue;
      }
      hitHashes[word++] = hashes[hash] as number;
      hitHashes[word++] = hashes[hash + 1] as number;
      const run = hitRuns.at(-1);
      if (run?.rowsBefore === rows) run.slots.push(slot);
      else hitRuns.push({ rowsBefore: rows, slots: [slot] });
      hasNewHits ||= !this.hasHit(slot);
      this.addHit(slot);
    }
    const rejects = scanned.rejects.map((reject) => ({
      ...reject,
      position: positionsOfMisses[reject.position] as number,
    }));
    return { ...scanned, rejects, hits, hitRuns, hasNewHits, hitHashes, raw };
  }
}

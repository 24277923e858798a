import { hashWords, type RecordHash } from '../columns/record-hash.js';
import { jsonBytes } from '../extract/scan/bytes.js';
import type { PageCut } from '../extract/scan/page-cutter.js';
import { MalformedPageError, type PageScanner, RecordOutcome, type ScannedPage } from '../extract/scan/scanned-page.js';
import type { RecordHashTable } from './hash-table.js';
import { findSeparator, RecordRanges, type RecordSeparator, unknown } from './record-ranges.js';

/** Known records of a page that no kept row of it comes between. */
interface HitRun {
  /** How many kept rows of the page come before them. */
  readonly rowsBefore: number;
  /** Their slots in the known set. */
  readonly slots: readonly number[];
}

/** What is on a page: the records that were recognised, and the others, scanned. */
export interface LookedUpPage extends ScannedPage {
  /** Number of records that were recognised; they are not among {@link ScannedPage.records}. */
  readonly recognised: number;
  readonly runs: readonly HitRun[];
  /** Whether any of them has not come before in this run. */
  readonly isFresh: boolean;
  /** Two 32-bit hashes of each recognised record. */
  readonly knownHashes: Uint32Array;
  /** The hash of each kept record, four words each; zeros if the record shall not be recognised. */
  readonly raw: Uint32Array;
}

type Page = Pick<PageCut, 'start' | 'end'> & { readonly body: Buffer };

/** How a page is to be looked at. */
export interface PageView {
  /** The first page of its chain. */
  readonly isFirst: boolean;
  /** Records must match a filter. */
  readonly isFiltered: boolean;
}

/** The buffer for the unknown records of a page: its first size, and the most that it keeps beyond what a page needs. */
const leastJoined = 1 << 16;
const mostSpare = 1 << 24;
const none = new Uint32Array(0);
const { closeBracket, comma } = jsonBytes;

/**
 * Recognises the records of a stream that have the bytes of an earlier night: they need not be converted again. What it does
 * not know goes to the scanner. It never takes anything for a record that a scanner has not found to be one, now or earlier.
 */
export class RecordCache {
  readonly #hash: RecordHash;
  readonly #known: RecordHashTable | undefined;
  readonly #slices: RecordRanges | undefined;
  /** One bit for each slot: whether its record has come. */
  #seen: Uint8Array;
  #separator: RecordSeparator | undefined;
  /** The unknown records of a page, joined. Taken in before the next page comes. */
  #joined = Buffer.allocUnsafe(leastJoined);

  /** @param base what an earlier night has brought; undefined: nothing can be recognised, only hashed for the next night */
  constructor(
    hash: RecordHash,
    base?: { readonly known: RecordHashTable; readonly separator: RecordSeparator | undefined },
  ) {
    this.#hash = hash;
    this.#known = base?.known;
    this.#separator = base?.separator;
    this.#slices = base && new RecordRanges(base.known, hash);
    this.#seen = new Uint8Array(Math.ceil((base?.known.slots ?? 0) / 8));
  }

  get separator(): RecordSeparator | undefined {
    return this.#separator;
  }

  get known(): RecordHashTable | undefined {
    return this.#known;
  }

  hasSeen(slot: number): boolean {
    return ((this.#seen[slot >> 3] as number) & (1 << (slot & 7))) !== 0;
  }

  see(slot: number): void {
    this.#seen[slot >> 3] = (this.#seen[slot >> 3] as number) | (1 << (slot & 7));
  }

  /** Forgets which records have come. */
  clear(): void {
    this.#seen = new Uint8Array(this.#seen.length);
  }

  /** @throws {MalformedPageError} as the scanner */
  scan(scanner: PageScanner, page: Page, view: PageView): LookedUpPage {
    const { body, start, end } = page;
    const slices = this.#slices;
    if (slices === undefined) return this.scanAll(scanner, page);
    if (this.#separator !== undefined) {
      slices.guess(body, start, end, this.#separator);
      if (slices.unknown === slices.count && slices.count > 0) return this.scanAll(scanner, page);
      const isJudged = view.isFiltered && (view.isFirst || this.#someRepeat(slices));
      const scanned = isJudged ? undefined : this.#scanUnknown(scanner, page, slices);
      if (scanned !== undefined) return scanned;
    }
    // The separator was wrong somewhere, or every record must be judged by the filter.
    const whole = this.scanAll(scanner, page);
    if (whole.mismatches > 0) return whole;
    slices.take(body, whole.bounds);
    if (slices.unknown === slices.count) return this.scanAll(scanner, page);
    return this.#scanUnknown(scanner, page, slices) ?? this.scanAll(scanner, page);
  }

  /** Scans all records, and hashes them for the next night. */
  scanAll(scanner: PageScanner, { body, start, end }: Page): LookedUpPage {
    const scanned = scanner.scan(body, start, end);
    const view = new DataView(body.buffer, body.byteOffset, body.length);
    const { bounds, fates } = scanned;
    const raw = new Uint32Array(scanned.records * hashWords);
    let row = 0;
    for (let index = 0; index < fates.length; index += 1) {
      if (fates[index] === RecordOutcome.rejected) continue;
      if (fates[index] === RecordOutcome.kept)
        this.#hash.write(view, bounds[2 * index] as number, bounds[2 * index + 1] as number, raw, row * hashWords);
      row += 1;
    }
    this.#learn(body, scanned);
    return { ...scanned, recognised: 0, runs: [], isFresh: false, knownHashes: none, raw };
  }

  #learn(body: Buffer, { bounds, fates }: ScannedPage): void {
    if (this.#separator !== undefined || fates.length < 2) return;
    const [first, end, next] = [bounds[0] as number, bounds[1] as number, bounds[2] as number];
    this.#separator = findSeparator(body, first, end, next);
  }

  #someRepeat(slices: RecordRanges): boolean {
    for (let index = 0; index < slices.count; index += 1) {
      const slot = slices.slots[index] as number;
      if (slot !== unknown && this.hasSeen(slot)) return true;
    }
    return false;
  }

  /** Scans the unknown slices; undefined if they are not one record each, so that the slices are no records. */
  #scanUnknown(scanner: PageScanner, { body }: Page, slices: RecordRanges): LookedUpPage | undefined {
    const length = this.#join(body, slices);
    let scanned: ScannedPage;
    try {
      scanned = scanner.scan(this.#joined, 0, length);
    } catch (error) {
      if (error instanceof MalformedPageError) return undefined;
      throw error;
    }
    return this.#areRecords(slices, scanned) ? this.#recognised(slices, scanned) : undefined;
  }

  /** Copies the unknown slices behind each other, as the inside of a list. Returns their length. */
  #join(body: Buffer, { count, bounds, slots }: RecordRanges): number {
    let needed = 0;
    for (let index = 0; index < count; index += 1)
      if (slots[index] === unknown) needed += (bounds[2 * index + 1] as number) - (bounds[2 * index] as number) + 1;
    if (needed > this.#joined.length || this.#joined.length > Math.max(mostSpare, 2 * needed))
      this.#joined = Buffer.allocUnsafe(needed > mostSpare ? needed : Math.max(leastJoined, needed * 2));
    let length = 0;
    for (let index = 0; index < count; index += 1) {
      if (slots[index] !== unknown) continue;
      if (length > 0) this.#joined[length++] = comma;
      length += body.copy(this.#joined, length, bounds[2 * index], bounds[2 * index + 1]);
    }
    // A scanner looks behind the last record: white space of an earlier page must not stand there.
    this.#joined[length] = closeBracket;
    return length;
  }

  /** Whether the records that were scanned are the unknown slices, one by one and whole. */
  #areRecords({ count, unknown: missing, bounds, slots }: RecordRanges, scanned: ScannedPage): boolean {
    if (scanned.fates.length !== missing) return false;
    let [record, at] = [0, 0];
    for (let index = 0; index < count; index += 1) {
      if (slots[index] !== unknown) continue;
      const to = at + (bounds[2 * index + 1] as number) - (bounds[2 * index] as number);
      if (scanned.bounds[2 * record] !== at || scanned.bounds[2 * record + 1] !== to) return false;
      record += 1;
      at = to + 1;
    }
    return true;
  }

  #recognised({ count, slots, hashes, unknown: missing }: RecordRanges, scanned: ScannedPage): LookedUpPage {
    const recognised = count - missing;
    const knownHashes = new Uint32Array(recognised * 2);
    const raw = new Uint32Array(scanned.records * hashWords);
    const runs: { rowsBefore: number; slots: number[] }[] = [];
    const places: number[] = [];
    let isFresh = false;
    let [row, record, known] = [0, 0, 0];
    for (let index = 0; index < count; index += 1) {
      const slot = slots[index] as number;
      const hash = index * hashWords;
      if (slot !== unknown) {
        knownHashes[known++] = hashes[hash] as number;
        knownHashes[known++] = hashes[hash + 1] as number;
        const last = runs.at(-1);
        if (last?.rowsBefore === row) last.slots.push(slot);
        else runs.push({ rowsBefore: row, slots: [slot] });
        isFresh ||= !this.hasSeen(slot);
        this.see(slot);
        continue;
      }
      const fate = scanned.fates[record++];
      places.push(index);
      if (fate === RecordOutcome.rejected) continue;
      if (fate === RecordOutcome.kept) raw.set(hashes.subarray(hash, hash + hashWords), row * hashWords);
      row += 1;
    }
    // Positions are told as they are in the page, not among its unknown records.
    const rejects = scanned.rejects.map((reject) => ({ ...reject, position: places[reject.position] as number }));
    return { ...scanned, rejects, recognised, runs, isFresh, knownHashes, raw };
  }
}

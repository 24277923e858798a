import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { hashWords, RecordHasher, secretBytes } from '../columns/record-hash.js';
import { fileTexts } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';
import type { JournalState } from '../storage/journal.js';
import { writeParquet } from '../storage/parquet.js';
import type { DroppedRows } from '../storage/part.js';
import { type CachedRows, hitRowsSql, noUnchangedRows, type UnchangedRows } from '../storage/unchanged-rows.js';
import {
  type CacheFile,
  type CacheHeader,
  cachePaths,
  linkCacheFile,
  readCacheFile,
  UnusableCache,
} from './cache-file.js';
import { CacheHitsLog, readCacheHits } from './cache-hits.js';
import { RecordCache } from './record-cache.js';
import type { RecordSeparator } from './record-ranges.js';

/** How a reading uses the record cache of the last snapshot. */
export interface StreamCacheOptions {
  /** The folder of the cache file. */
  readonly folder: string;
  /** Digest of everything that decides how a record's bytes are converted. */
  readonly fingerprint: string;
  /** Checks a cache file. @throws {UnusableCache} with the reason, if it must not be used */
  accept(header: CacheHeader): void;
}

/** The properties of the next run's record cache. */
export interface NextCache {
  readonly fingerprint: string;
  /** Of the hash, in hex. */
  readonly secret: string;
  readonly separator: CacheHeader['separator'];
  /** When every record was last converted and compared before this reading, ISO 8601; null: this reading converted all. */
  readonly verifiedAt: string | null;
}

interface KeyedPart {
  readonly number: number;
  readonly rows: number;
  readonly keysPath: string;
}

/** A row of a part whose key was also a cache hit. */
interface Copy {
  readonly part: number;
  readonly row: number;
}

/** The hits of a reading, by the journal. */
interface HitsTask {
  readonly rows: CachedRows;
  readonly seen: number;
  readonly cursors: JournalState['cursors'];
  readonly dropped: readonly DroppedRows[];
}

function logPath(folder: string): string {
  return join(folder, 'cache-hits.log');
}

/** The record cache of one stream in one run: the hashes of the last snapshot, the hits so far, and their log. */
export class StreamCache {
  readonly records: RecordCache;
  readonly log: CacheHitsLog | undefined;
  /** Why there is no cache, in words; undefined if there is one. */
  readonly reason: string | undefined;
  readonly #folder: string;
  readonly #secret: Buffer;
  readonly #base: CacheFile | undefined;
  readonly #fingerprint: string | undefined;
  /** Whether hits of dropped attempts may still count. */
  #isStale = false;

  private constructor(start: {
    readonly folder: string;
    readonly secret: Buffer;
    readonly base: CacheFile | undefined;
    readonly log: CacheHitsLog | undefined;
    readonly reason: string | undefined;
    readonly options: StreamCacheOptions | undefined;
  }) {
    const { folder, secret, base, options, log, reason } = start;
    this.#folder = folder;
    this.#secret = secret;
    this.#base = base;
    this.#fingerprint = options?.fingerprint;
    this.log = log;
    this.reason = reason;
    this.records = new RecordCache(
      new RecordHasher(secret),
      base && { table: base.table, separator: separatorIn(base.header) },
    );
  }

  /**
   * Begins with the cache of the last run, or without one.
   * @param folder the stream's folder in the run; it gets links to the cache file, so that a resuming process has the same cache
   */
  static async begin(folder: string, options: StreamCacheOptions): Promise<StreamCache> {
    try {
      const base = await readCacheFile(options.folder, (header) => options.accept(header));
      if (base === undefined) return StreamCache.#without(folder, options, 'there is no record cache yet');
      await linkCacheFile(options.folder, folder, base.header.id);
      const log = await CacheHitsLog.open(logPath(folder), 0);
      const secret = Buffer.from(base.header.secret, 'hex');
      return new StreamCache({ folder, secret, base, log, reason: undefined, options });
    } catch (error) {
      if (error instanceof UnusableCache) return StreamCache.#without(folder, options, error.message);
      const { code } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      return StreamCache.#without(folder, options, `the record cache cannot be linked (${code})`);
    }
  }

  static #without(folder: string, options: StreamCacheOptions, reason: string): StreamCache {
    const [base, log] = [undefined, undefined];
    return new StreamCache({ folder, secret: randomBytes(secretBytes), base, log, reason, options });
  }

  /**
   * Continues from the journal; undefined if that is impossible, so that the reading must begin again.
   * @param options undefined if the present options turn the cache off; the hits in the journal still count
   */
  static async resume(
    folder: string,
    { start, cursors, seen }: JournalState,
    options: StreamCacheOptions | undefined,
  ): Promise<StreamCache | 'off' | undefined> {
    const { recognition } = start;
    if (recognition === undefined) return 'off';
    const secret = Buffer.from(recognition.secret, 'hex');
    if (secret.length !== secretBytes) return undefined;
    if (recognition.base === null) {
      const reason = 'the resumed reading has no record cache';
      return new StreamCache({ folder, secret, base: undefined, log: undefined, reason, options });
    }
    let log: CacheHitsLog | undefined;
    try {
      const base = await readCacheFile(folder, ({ id }) => {
        if (id !== recognition.base) throw new UnusableCache('it is another one');
      });
      if (base === undefined) return undefined;
      log = await CacheHitsLog.open(logPath(folder), seen);
      const resumed = new StreamCache({ folder, secret, base, log, reason: undefined, options });
      await resumed.#replay(cursors, seen);
      return resumed;
    } catch (error) {
      await log?.close();
      if (error instanceof UnusableCache || error instanceof RangeError) return undefined;
      throw error;
    }
  }

  /** The cache's entry in the journal. */
  get journaled(): { readonly base: string | null; readonly secret: string } {
    return { base: this.#base?.header.id ?? null, secret: this.#secret.toString('hex') };
  }

  /** The properties of the next run's cache; undefined if the present options turn it off. */
  get next(): NextCache | undefined {
    const { separator } = this.records;
    if (this.#fingerprint === undefined) return undefined;
    return {
      fingerprint: this.#fingerprint,
      secret: this.#secret.toString('hex'),
      separator: separator === undefined ? null : { ...separator, bytes: separator.bytes.toString('base64') },
      verifiedAt: this.#base?.header.verified_at ?? null,
    };
  }

  /** Notes that a partition starts again: the hits of its earlier attempts no longer count. */
  noteRestart(): void {
    this.#isStale = true;
  }

  /**
   * The unchanged rows, according to the journal, and the rows of parts that do not count because a later record with their key was a
   * cache hit.
   * @param records number of hits
   * @throws {CdsyncError} errors of DuckDB
   */
  async unchangedRows(
    connect: () => Promise<Session>,
    { cursors, seen }: JournalState,
    parts: readonly KeyedPart[],
    { records, dropped }: { readonly records: number; readonly dropped: readonly DroppedRows[] },
  ): Promise<{ unchangedRows: UnchangedRows; superseded: readonly DroppedRows[] }> {
    const base = this.#base;
    if (base === undefined) return { unchangedRows: { ...noUnchangedRows, records }, superseded: [] };
    if (this.#isStale) await this.#replay(cursors, seen);
    const { count, words } = this.#missedHashes(base);
    // If no record was a hit, all rows are in parts, as without a cache; files that say so cost more than small streams themselves.
    if (count === base.table.count && count > 0)
      return { unchangedRows: { ...noUnchangedRows, records }, superseded: [] };
    const cachedRows = { keysPath: cachePaths(this.#folder).keys(base.header.id), rows: base.header.keys.rows };
    if (count === 0 && parts.length === 0) {
      return { unchangedRows: { records, known: { ...cachedRows, unseenPath: null } }, superseded: [] };
    }
    const session = await connect();
    try {
      const unseenPath = count === 0 ? null : await this.#writeMissed(session, words);
      const rows = { ...cachedRows, unseenPath };
      const superseded =
        parts.length === 0 ? [] : await this.#superseded(session, parts, { rows, seen, cursors, dropped });
      return { unchangedRows: { records, known: rows }, superseded };
    } finally {
      session.close();
    }
  }

  async close(): Promise<void> {
    await this.log?.close();
  }

  async #replay(cursors: JournalState['cursors'], length: number): Promise<void> {
    this.records.clearHits();
    for await (const { partition, attempt, slots } of readCacheHits(logPath(this.#folder), length)) {
      if (attempt < (cursors.get(partition)?.attempt ?? 1)) continue;
      for (let index = 0; index < slots.length; index += 1) this.records.addHit(slots[index] as number);
    }
    this.#isStale = false;
  }

  #missedHashes({ table }: CacheFile): { readonly count: number; readonly words: Uint32Array } {
    let count = 0;
    for (let slot = 0; slot < table.slots; slot += 1) if (table.has(slot) && !this.records.hasHit(slot)) count += 1;
    const words = new Uint32Array(count * hashWords);
    let at = 0;
    for (let slot = 0; slot < table.slots && at < words.length; slot += 1) {
      if (!table.has(slot) || this.records.hasHit(slot)) continue;
      words.set(table.words.subarray(slot * hashWords, (slot + 1) * hashWords), at);
      at += hashWords;
    }
    return { count, words };
  }

  async #writeMissed(session: Session, words: Uint32Array): Promise<string> {
    const path = join(this.#folder, 'unseen.parquet');
    await session.run('CREATE OR REPLACE TEMP TABLE work_unseen (raw_hi UBIGINT, raw_lo UBIGINT)');
    await session.appendWords('work_unseen', words, hashWords / 2);
    await writeParquet(session, 'FROM work_unseen', path, { compression: 'snappy' });
    await session.run('DROP TABLE work_unseen');
    return path;
  }

  /** Rows of parts whose key was a cache hit later: the copy read last counts. */
  async #superseded(session: Session, parts: readonly KeyedPart[], hits: HitsTask): Promise<DroppedRows[]> {
    const copies = await this.#copiesOfHits(session, parts, hits);
    if (copies.size === 0) return [];
    const lastHits = await this.#lastHits(copies, hits);
    return [...copies].flatMap(([slot, rows]) => {
      const lastHit = lastHits.get(slot);
      if (lastHit === undefined || rows.some((copy) => isAfter(copy, lastHit))) return [];
      return rows.map(({ part, row }) => ({ part, from: row, to: row + 1 }));
    });
  }

  /** The rows of parts that have the key of a hit, by the hit's slot; without those that are dropped already. */
  async #copiesOfHits(
    session: Session,
    parts: readonly KeyedPart[],
    { rows, dropped }: HitsTask,
  ): Promise<Map<number, Copy[]>> {
    const files = fileTexts(parts.map(({ keysPath }) => keysPath));
    const pairs = session.stream(
      `SELECT k.part AS part, k.row::INTEGER AS row, s.raw_hi AS hi, s.raw_lo AS lo
       FROM read_parquet(${files}, union_by_name = true) AS k JOIN (${hitRowsSql(rows)}) AS s ON k.key = s.key`,
    );
    const copies = new Map<number, Copy[]>();
    for await (const { part, row, hi, lo } of pairs) {
      const copy = { part: Number(part), row: Number(row) };
      if (dropped.some(({ part, from, to }) => part === copy.part && copy.row >= from && copy.row < to)) continue;
      const slot = this.#slotOf(BigInt(String(hi)), BigInt(String(lo)));
      const others = copies.get(slot);
      if (others === undefined) copies.set(slot, [copy]);
      else others.push(copy);
    }
    return copies;
  }

  #slotOf(hi: bigint, lo: bigint): number {
    const words = new Uint32Array(new BigUint64Array([hi, lo]).buffer);
    return this.#base?.table.find(words, 0) ?? -1;
  }

  /** The position of the last hit of each slot. */
  async #lastHits(wanted: ReadonlyMap<number, unknown>, { seen, cursors }: HitsTask): Promise<Map<number, Copy>> {
    const last = new Map<number, Copy>();
    for await (const { partition, attempt, part, row, slots } of readCacheHits(logPath(this.#folder), seen)) {
      if (attempt < (cursors.get(partition)?.attempt ?? 1)) continue;
      for (let index = 0; index < slots.length; index += 1) {
        const slot = slots[index] as number;
        if (wanted.has(slot)) last.set(slot, { part, row });
      }
    }
    return last;
  }
}

/** Whether a row was read after a hit, which follows the first `hit.row` rows of its part. */
function isAfter({ part, row }: Copy, hit: Copy): boolean {
  return part > hit.part || (part === hit.part && row >= hit.row);
}

function separatorIn({ separator }: CacheHeader): RecordSeparator | undefined {
  return separator === null ? undefined : { ...separator, bytes: Buffer.from(separator.bytes, 'base64') };
}

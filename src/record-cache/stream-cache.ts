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
import { readCacheHits, SeenLog } from './cache-hits.js';
import { RecordCache } from './record-cache.js';
import type { RecordSeparator } from './record-ranges.js';

/** What a reading needs to recognise the records of an earlier night. */
export interface RecognitionOptions {
  /** The folder of the known file. */
  readonly folder: string;
  /** Digest of all that decides what becomes of a record's bytes. */
  readonly fingerprint: string;
  /** Judges a known file. @throws {UnusableCache} why it must not be used */
  accept(header: CacheHeader): void;
}

/** What the next night needs to recognise the records of this one. */
export interface NextCache {
  readonly fingerprint: string;
  /** Of the hash, in hex. */
  readonly secret: string;
  readonly separator: CacheHeader['separator'];
  /** When every record was last converted and compared, before this reading: ISO 8601; null: this reading has converted all. */
  readonly verifiedAt: string | null;
}

/** The rows that stand, and those of parts that do not count because the same key came again later, as it was. */
interface UnchangedParts {
  readonly standing: UnchangedRows;
  readonly superseded: readonly DroppedRows[];
}

interface KeyedPart {
  readonly number: number;
  readonly rows: number;
  readonly keysPath: string;
}

/** A row of a part whose key also came as a recognised record. */
interface Copy {
  readonly part: number;
  readonly row: number;
}

function logPath(folder: string): string {
  return join(folder, 'seen.log');
}

/** The recognition of one stream in one run: its hash, what it knows, and what of that has come. */
export class StreamCache {
  readonly recogniser: RecordCache;
  readonly log: SeenLog | undefined;
  /** Why no record was recognised, in words; undefined if some could be. */
  readonly reason: string | undefined;
  readonly #folder: string;
  readonly #secret: Buffer;
  readonly #base: CacheFile | undefined;
  readonly #fingerprint: string | undefined;
  /** Whether records count as seen that only dropped attempts have brought. */
  #isStale = false;

  private constructor(given: {
    readonly folder: string;
    readonly secret: Buffer;
    readonly base: CacheFile | undefined;
    readonly log: SeenLog | undefined;
    readonly reason: string | undefined;
    readonly options: RecognitionOptions | undefined;
  }) {
    const { folder, secret, base, options, log, reason } = given;
    this.#folder = folder;
    this.#secret = secret;
    this.#base = base;
    this.#fingerprint = options?.fingerprint;
    this.log = log;
    this.reason = reason;
    this.recogniser = new RecordCache(
      new RecordHasher(secret),
      base && { known: base.set, separator: separatorIn(base.header) },
    );
  }

  /**
   * Begins with what the last night has left, or without.
   * @param folder the stream's folder in the run: it gets links, so that a later process resumes with the same
   */
  static async begin(folder: string, options: RecognitionOptions): Promise<StreamCache> {
    try {
      const base = await readCacheFile(options.folder, (header) => options.accept(header));
      if (base === undefined) return StreamCache.#without(folder, options, 'nothing is known yet');
      await linkCacheFile(options.folder, folder, base.header.id);
      const log = await SeenLog.open(logPath(folder), 0);
      const secret = Buffer.from(base.header.secret, 'hex');
      return new StreamCache({ folder, secret, base, log, reason: undefined, options });
    } catch (error) {
      if (error instanceof UnusableCache) return StreamCache.#without(folder, options, error.message);
      const { code } = error as NodeJS.ErrnoException;
      if (code === undefined) throw error;
      return StreamCache.#without(folder, options, `what is known cannot be linked (${code})`);
    }
  }

  static #without(folder: string, options: RecognitionOptions, reason: string): StreamCache {
    const [base, log] = [undefined, undefined];
    return new StreamCache({ folder, secret: randomBytes(secretBytes), base, log, reason, options });
  }

  /**
   * Goes on as the journal says; undefined if that is impossible, so that the reading must begin again.
   * @param options undefined if the present options do not recognise: what the journal has recognised still counts
   */
  static async resume(
    folder: string,
    { start, cursors, seen }: JournalState,
    options: RecognitionOptions | undefined,
  ): Promise<StreamCache | 'off' | undefined> {
    const { recognition } = start;
    if (recognition === undefined) return 'off';
    const secret = Buffer.from(recognition.secret, 'hex');
    if (secret.length !== secretBytes) return undefined;
    if (recognition.base === null) {
      const reason = 'the reading that is resumed recognised nothing';
      return new StreamCache({ folder, secret, base: undefined, log: undefined, reason, options });
    }
    let log: SeenLog | undefined;
    try {
      const base = await readCacheFile(folder, ({ id }) => {
        if (id !== recognition.base) throw new UnusableCache('it is another one');
      });
      if (base === undefined) return undefined;
      log = await SeenLog.open(logPath(folder), seen);
      const resumed = new StreamCache({ folder, secret, base, log, reason: undefined, options });
      await resumed.#replay(cursors, seen);
      return resumed;
    } catch (error) {
      await log?.close();
      if (error instanceof UnusableCache || error instanceof RangeError) return undefined;
      throw error;
    }
  }

  /** What the journal must remember of it. */
  get journaled(): { readonly base: string | null; readonly secret: string } {
    return { base: this.#base?.header.id ?? null, secret: this.#secret.toString('hex') };
  }

  /** Undefined if the present options do not recognise. */
  get next(): NextCache | undefined {
    const { separator } = this.recogniser;
    if (this.#fingerprint === undefined) return undefined;
    return {
      fingerprint: this.#fingerprint,
      secret: this.#secret.toString('hex'),
      separator: separator === undefined ? null : { ...separator, bytes: separator.bytes.toString('base64') },
      verifiedAt: this.#base?.header.verified_at ?? null,
    };
  }

  /** A partition starts again: what its earlier attempts have seen no longer counts. */
  restarted(): void {
    this.#isStale = true;
  }

  /**
   * What stands after everything that is in the journal.
   * @param records number of records that were recognised
   * @throws {CdsyncError} what DuckDB throws
   */
  async standing(
    connect: () => Promise<Session>,
    { cursors, seen }: JournalState,
    parts: readonly KeyedPart[],
    { records, dropped }: { readonly records: number; readonly dropped: readonly DroppedRows[] },
  ): Promise<UnchangedParts> {
    const base = this.#base;
    if (base === undefined) return { standing: { ...noUnchangedRows, records }, superseded: [] };
    if (this.#isStale) await this.#replay(cursors, seen);
    const { count, words } = this.#unseenHashes(base);
    const known = { keysPath: cachePaths(this.#folder).keys(base.header.id), rows: base.header.keys.rows };
    if (count === 0 && parts.length === 0) {
      return { standing: { records, known: { ...known, unseenPath: null } }, superseded: [] };
    }
    const session = await connect();
    try {
      const unseenPath = count === 0 ? null : await this.#writeUnseen(session, words);
      const rows = { ...known, unseenPath };
      const superseded =
        parts.length === 0 ? [] : await this.#superseded(session, parts, { rows, seen, cursors, dropped });
      return { standing: { records, known: rows }, superseded };
    } finally {
      session.close();
    }
  }

  async close(): Promise<void> {
    await this.log?.close();
  }

  async #replay(cursors: JournalState['cursors'], length: number): Promise<void> {
    this.recogniser.clear();
    for await (const { partition, attempt, slots } of readCacheHits(logPath(this.#folder), length)) {
      if (attempt < (cursors.get(partition)?.attempt ?? 1)) continue;
      for (let index = 0; index < slots.length; index += 1) this.recogniser.see(slots[index] as number);
    }
    this.#isStale = false;
  }

  #unseenHashes({ set }: CacheFile): { readonly count: number; readonly words: Uint32Array } {
    let count = 0;
    for (let slot = 0; slot < set.slots; slot += 1) if (set.has(slot) && !this.recogniser.hasSeen(slot)) count += 1;
    const words = new Uint32Array(count * hashWords);
    let at = 0;
    for (let slot = 0; slot < set.slots && at < words.length; slot += 1) {
      if (!set.has(slot) || this.recogniser.hasSeen(slot)) continue;
      words.set(set.words.subarray(slot * hashWords, (slot + 1) * hashWords), at);
      at += hashWords;
    }
    return { count, words };
  }

  async #writeUnseen(session: Session, words: Uint32Array): Promise<string> {
    const path = join(this.#folder, 'unseen.parquet');
    await session.run('CREATE OR REPLACE TEMP TABLE work_unseen (raw_hi UBIGINT, raw_lo UBIGINT)');
    await session.appendWords('work_unseen', words, hashWords / 2);
    await writeParquet(session, 'FROM work_unseen', path, { compression: 'snappy' });
    await session.run('DROP TABLE work_unseen');
    return path;
  }

  /** Rows of parts whose key came again later as a recognised record: the copy read last counts. */
  async #superseded(
    session: Session,
    parts: readonly KeyedPart[],
    of: {
      readonly rows: CachedRows;
      readonly seen: number;
      readonly cursors: JournalState['cursors'];
      readonly dropped: readonly DroppedRows[];
    },
  ): Promise<DroppedRows[]> {
    const files = fileTexts(parts.map(({ keysPath }) => keysPath));
    const found = session.stream(
      `SELECT k.part AS part, k.row::INTEGER AS row, s.key AS key, s.raw_hi AS hi, s.raw_lo AS lo
       FROM read_parquet(${files}, union_by_name = true) AS k JOIN (${hitRowsSql(of.rows)}) AS s ON k.key = s.key`,
    );
    const copies = new Map<number, Copy[]>();
    for await (const { part, row, hi, lo } of found) {
      const copy = { part: Number(part), row: Number(row) };
      if (of.dropped.some((gone) => gone.part === copy.part && copy.row >= gone.from && copy.row < gone.to)) continue;
      const slot = this.#slotOf(BigInt(String(hi)), BigInt(String(lo)));
      const known = copies.get(slot);
      if (known === undefined) copies.set(slot, [copy]);
      else known.push(copy);
    }
    if (copies.size === 0) return [];
    const last = await this.#lastSeen(copies, of);
    return [...copies].flatMap(([slot, rows]) => {
      const seen = last.get(slot);
      if (seen === undefined || rows.some((copy) => isAfter(copy, seen))) return [];
      return rows.map(({ part, row }) => ({ part, from: row, to: row + 1 }));
    });
  }

  #slotOf(hi: bigint, lo: bigint): number {
    const words = new Uint32Array(new BigUint64Array([hi, lo]).buffer);
    return this.#base?.set.find(words, 0) ?? -1;
  }

  /** Where each of these records came last. */
  async #lastSeen(
    wanted: ReadonlyMap<number, unknown>,
    { seen, cursors }: { readonly seen: number; readonly cursors: JournalState['cursors'] },
  ): Promise<Map<number, Copy>> {
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

/** Whether a row was read after a recognised record, of which `seen.row` rows of the part came before. */
function isAfter({ part, row }: Copy, seen: Copy): boolean {
  return part > seen.part || (part === seen.part && row >= seen.row);
}

function separatorIn({ separator }: CacheHeader): RecordSeparator | undefined {
  return separator === null ? undefined : { ...separator, bytes: Buffer.from(separator.bytes, 'base64') };
}

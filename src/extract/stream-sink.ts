import { join } from 'node:path';
import type { ColumnRules } from '../columns/column-rules.js';
import { type ColumnField, ColumnSet, type StoredColumn } from '../columns/columns.js';
import { CdsyncError } from '../core/errors.js';
import { formatCounted } from '../core/quantities.js';
import type { PageView } from '../record-cache/record-cache.js';
import type { StreamCache } from '../record-cache/stream-cache.js';
import type { Source } from '../sources/source.js';
import {
  type Counters,
  firstCursor,
  type Journal,
  type JournalState,
  type PartitionCursor,
} from '../storage/journal.js';
import type { ParquetCompression } from '../storage/parquet.js';
import type { PartConverter } from './convert/converter.js';
import type { PageSink, ReadTask } from './page-chain.js';
import type { PageBytes, RefusedKey } from './page-fetcher.js';
import { type PageToWrite, PartWriter } from './part-writer.js';
import { type Partition, partitionName } from './partition.js';
import type { LiveCounters } from './read-result.js';
import { RecordScanner } from './scan/record-scanner.js';

/** 2^27 bits: 16 MB. The system provides a page of them only once it is touched. */
const bloomWords = 1 << 22;

/**
 * A Bloom filter of the keys that a stream's page chains have returned. It never takes a known key for new. It may take a new
 * key for known, the more often the more keys it has. But a hundred pages in a row are safe: even with 100 million keys, the
 * chance that all their new keys seem known is below 10^-7.
 */
class BloomFilter {
  #bits: Uint32Array | undefined;

  /**
   * Adds the keys of one page.
   * @param hashes two 32-bit hashes for each key
   * @param chain number of the page chain: a key is new once to each chain
   * @returns whether any of them was new
   */
  add(hashes: Uint32Array, chain: number): boolean {
    this.#bits ??= new Uint32Array(bloomWords);
    const bits = this.#bits;
    const salt = Math.imul(chain + 1, 0x9e3779b1);
    let anyNew = false;
    for (let index = 0; index < hashes.length; index += 2) {
      let place = ((hashes[index] as number) ^ salt) >>> 0;
      const step = ((hashes[index + 1] as number) ^ Math.imul(salt, 0x85ebca6b)) | 1;
      for (let probe = 0; probe < 4; probe += 1) {
        const word = (place >>> 5) & (bloomWords - 1);
        const bit = 1 << (place & 31);
        const before = bits[word] as number;
        if ((before & bit) === 0) {
          bits[word] = before | bit;
          anyNew = true;
        }
        place = (place + step) >>> 0;
      }
    }
    return anyNew;
  }
}

interface StreamSinkOptions {
  readonly source: Source;
  /** `streams/<stream>` of the run's private folder. */
  readonly folder: string;
  readonly journal: Journal;
  /** The journal of an earlier process, to resume from. */
  readonly resume: JournalState | undefined;
  /** The columns of the last snapshot. */
  readonly columns: readonly StoredColumn[] | undefined;
  readonly rules: ColumnRules;
  readonly converter: PartConverter;
  readonly compression: ParquetCompression;
  /** Given if records are hashed, and cached if they can be. */
  readonly recognition: StreamCache | undefined;
  /** Counters to update with every page. */
  readonly live: LiveCounters;
  /** The counters so far, for a checkpoint. */
  readonly counters: () => Counters;
}

/**
 * Takes in the pages of all tasks of a stream, one at a time: the tasks share its columns, its parts and its journal
 * (see docs/decisions.md#3).
 */
export class StreamSink {
  readonly #options: StreamSinkOptions;
  readonly #columns: ColumnSet;
  readonly #writer: PartWriter;
  #seen = new BloomFilter();
  readonly #received: Set<string>;
  /** The attributes of filters that any record had a value in. */
  readonly #evaluated = new Set<string>();

  constructor(options: StreamSinkOptions) {
    this.#options = options;
    this.#columns = startingColumns(options);
    const parts = options.resume?.parts ?? [];
    this.#received = new Set(parts.flatMap(({ segments }) => segments.map(([partition]) => partition)));
    const { folder, source, compression, rules, converter, journal, resume, recognition, counters } = options;
    this.#writer = new PartWriter({
      folder: join(folder, 'parts'),
      stagingFolder: join(folder, 'staging'),
      key: source.key,
      compression,
      columns: this.#columns,
      rules,
      maker: converter,
      journal,
      seen: recognition?.log,
      parts: resume?.parts.at(-1)?.number ?? 0,
      counters,
    });
  }

  /** The columns of all records so far, as they are kept. */
  get columns(): ColumnSet {
    return ColumnSet.restore(this.#options.rules.keep(this.#columns.store()));
  }

  /** The columns of all records so far that are not kept. */
  get leftOut(): ColumnField[] {
    return this.#options.rules.leaveOut(this.#columns.store());
  }

  /** Whether this partition has returned any record. */
  received(partition: Partition): boolean {
    return this.#received.has(partitionName(partition));
  }

  /** Which of a filter's attributes no record has: the service may have ignored the filter on them. */
  unevaluated(attributes: Iterable<string>): string[] {
    // Attributes that an earlier process has read are in the columns of its parts.
    const parts = this.#options.resume?.parts ?? [];
    const earlier = parts.flatMap(({ columns, left_out: leftOut = [] }) => [...columns, ...leftOut]);
    return [...attributes].filter(
      (name) =>
        !this.#evaluated.has(name) && !earlier.some(({ place, field }) => place === 'attribute' && field === name),
    );
  }

  /** The sink of one task. */
  of({ partition, ordinal, filter, distrustsTokens }: ReadTask): PageSink {
    const name = partitionName(partition);
    const scanner = this.#scanner(filter);
    return {
      take: async (page, cursor) => {
        const view = { isFirst: cursor.pages === 1, isFiltered: filter.length > 0 };
        const scanned = await this.#add((bytes) => this.#scan(scanner, bytes, view), page, name, cursor);
        for (const attribute of scanned.evaluated) this.#evaluated.add(attribute);
        const hits = 'hits' in scanned ? scanned.hits : 0;
        const records = scanned.records + hits;
        if (records > 0) this.#received.add(name);
        // A list of one page needs no memory for its keys.
        const isOnly = view.isFirst && cursor.done;
        const hasNew = isOnly || this.#hasNew(scanned, ordinal * 8 + cursor.attempt, distrustsTokens);
        return { records, hasNew };
      },
      restart: (attempt) => {
        this.#options.recognition?.noteRestart();
        return this.#writer.note({ type: 'attempt', partition: name, attempt });
      },
    };
  }

  /**
   * Takes in a record that was requested by its key.
   * @returns whether it is kept, among the records or the rejects; false if it no longer matches the filter
   */
  async addSingle(body: Buffer, filter: ReadTask['filter']): Promise<boolean> {
    const scanner = this.#scanner(filter);
    const cursor = { ...firstCursor, done: true };
    const { records, rejects } = await this.#writer.add(
      () => {
        const whole = { body, start: 0, end: body.length };
        const page = this.#options.recognition?.records.scanAll(scanner, whole) ?? scanner.scan(body, 0, body.length);
        if (page.records + page.rejects.length !== 1 || page.mismatches !== 0) return notKept(page);
        this.#options.live.read += 1;
        this.#options.live.kept += page.records;
        this.#options.live.rejected += page.rejects.length;
        return page;
      },
      partitionName({ kind: 'single' }),
      cursor,
    );
    return records + rejects.length > 0;
  }

  /** On return, everything taken in is in parts and in the journal. */
  flush(): Promise<void> {
    return this.#writer.flush();
  }

  /**
   * The same; and memory and staging files are released until the next page. A later chain need not know the keys of those before.
   */
  async drain(): Promise<void> {
    await this.#writer.drain();
    this.#seen = new BloomFilter();
  }

  /** Notes the requests so far in the journal: parts do not need all of them. */
  recordRequests({ requests, retries, throttled, bytes, milliseconds }: Counters): Promise<void> {
    return this.#writer.note({ type: 'spent', counters: { requests, retries, throttled, bytes, milliseconds } });
  }

  /** Notes in the journal that a reading must not resume: it would only meet the same failure. */
  fail(code: string): Promise<void> {
    return this.#writer.note({ type: 'failed', code });
  }

  close(): Promise<void> {
    return this.#writer.close();
  }

  #scanner(filter: ReadTask['filter']): RecordScanner {
    const { container, key } = this.#options.source;
    return new RecordScanner(this.#columns, { container, key, filter: new Map(filter) });
  }

  #scan(scanner: RecordScanner, page: PageBytes, view: PageView): PageToWrite {
    const { recognition } = this.#options;
    return recognition === undefined
      ? scanner.scan(page.body, page.start, page.end)
      : recognition.records.scan(scanner, page, view);
  }

  /**
   * Whether a key is new to the chain; the bytes of a cached record are taken for its key. A record that is new to the run
   * is new to every chain, so it need not be remembered: a circle is then noticed in its second round, not in its first.
   * @param isExact whether the first page without anything new already matters
   */
  #hasNew(page: PageToWrite, chain: number, isExact: boolean): boolean {
    const isFresh = 'hits' in page && page.hasNewHits && !isExact;
    const hits = 'hits' in page && !isFresh && this.#seen.add(page.hitHashes, chain);
    return this.#seen.add(page.keyHashes, chain) || hits || isFresh;
  }

  #add(
    scan: (page: PageBytes) => PageToWrite,
    page: PageBytes,
    name: string,
    cursor: PartitionCursor,
  ): Promise<PageToWrite> {
    const counted = () => {
      const scanned = withRefused(scan(page), page.refusedKeys ?? []);
      // No part and no checkpoint may have such a page: a later run would resume after it.
      if (scanned.mismatches > 0) throw filterIgnored(scanned);
      this.#count(scanned, page.missing);
      return scanned;
    };
    return this.#writer.add(counted, name, cursor);
  }

  #count(page: PageToWrite, missing: number): void {
    const { live } = this.#options;
    const hits = 'hits' in page ? page.hits : 0;
    live.pages += 1;
    live.cached += hits;
    live.read += page.records + page.rejects.length + hits;
    live.kept += page.records + hits;
    live.rejected += page.rejects.length;
    live.replaced += page.replaced;
    live.missing += missing;
  }
}

function startingColumns({ source, columns, resume, rules }: StreamSinkOptions): ColumnSet {
  const set = rules.begin(source.declared, columns);
  const last = resume?.parts.at(-1);
  if (last !== undefined) set.merge(rules.begin([], last.columns));
  return set;
}

function filterIgnored({ mismatches, mismatchedAttribute }: PageToWrite): CdsyncError {
  return new CdsyncError(
    `one page has ${formatCounted(mismatches, 'record')} outside of the filter on "${mismatchedAttribute}"`,
    {
      code: 'filter_ignored',
      hint: 'the service seems to ignore the filter: check that the index has this attribute available for filtering',
    },
  );
}

/** The page of a record that no longer matches: nothing of it is kept. */
function notKept(page: PageToWrite): PageToWrite {
  const nothing = { ...page, records: 0, rejects: [] };
  return 'raw' in nothing ? { ...nothing, raw: new Uint32Array(0) } : nothing;
}

/** A page whose rejects are also the keys without a record. */
function withRefused(page: PageToWrite, keys: readonly RefusedKey[]): PageToWrite {
  if (keys.length === 0) return page;
  const nothing = { position: -1, column: null, raw: Buffer.alloc(0) };
  return { ...page, rejects: [...page.rejects, ...keys.map((refused) => ({ ...nothing, ...refused }))] };
}

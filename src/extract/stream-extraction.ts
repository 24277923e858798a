import { join } from 'node:path';
import pLimit from 'p-limit';
import type { RequestMeter, ServiceClient } from '../client/client.js';
import type { Clock } from '../core/clock.js';
import { ColumnSet, type StoredColumn } from '../core/columns.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { type Database, sqlTexts } from '../store/duckdb.js';
import { type Counters, Journal, type JournalState, noCounters, type PartitionCursor } from '../store/journal.js';
import type { ParquetCompression } from '../store/parquet.js';
import type { ListSource } from '../streams/list-source.js';
import type { Converter } from './converter.js';
import { type Extracted, extracted, preparePartsFolder } from './extracted.js';
import { KeyFilter } from './key-filter.js';
import { type ChainContext, PageChain, readTotal } from './page-chain.js';
import { PartWriter } from './part-writer.js';
import { RecordScanner } from './record-scanner.js';
import type { ScannedPage } from './scanned-page.js';
import { hasAttributes, isRecord } from './single-record.js';

/** The chain that reads the list unpartitioned; a partition's name is `=<value>`, so none is called so. */
const whole = '*';
/** The second unpartitioned reading, which decides about too many absent keys. */
const wholeAgain = '**';
/** Records that were asked for one by one. */
const single = '+';
/** Failures by what was read: reading on from the checkpoint would only meet them again. */
const failuresByContent = new Set([
  'page_loop',
  'dead_token',
  'filter_ignored',
  'total_mismatch',
  'bad_request',
  'not_found',
]);

export interface ExtractionOptions {
  readonly stream: string;
  readonly source: ListSource;
  readonly filter: ReadonlyMap<string, string>;
  /** Splits the list: one chain for each value of an attribute. */
  readonly partition: { readonly attribute: string; readonly values: readonly string[] } | undefined;
  readonly pageSize: number;
  /** Chains read at once. */
  readonly concurrency: number;
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly database: Database;
  readonly converter: Converter;
  readonly compression: ParquetCompression;
  /** `streams/<stream>` of the run's private folder. */
  readonly folder: string;
  /** Of the request and all that shapes the parts. */
  readonly fingerprint: string;
  /** When the stream's reading began. */
  readonly startedAt: string;
  /** What is known of the columns from the last snapshot. */
  readonly columns: readonly StoredColumn[] | undefined;
  /** What an earlier process has read, to be gone on from. */
  readonly resume: JournalState | undefined;
  /** Whether the total is asked for even where nothing is partitioned. */
  readonly checkTotal: boolean;
}

/** A stream's counters while it runs, for whoever shows progress. */
export interface LiveCounters extends RequestMeter {
  milliseconds: number;
  pages: number;
  read: number;
  kept: number;
  rejected: number;
  replaced: number;
}

/** Reads one list of the service completely into parts, with checkpoints from which a later process goes on. */
export class StreamExtraction {
  readonly live: LiveCounters;
  readonly #options: ExtractionOptions;
  readonly #columns: ColumnSet;
  readonly #journal: Journal;
  readonly #writer: PartWriter;
  readonly #cursors: Map<string, PartitionCursor>;
  readonly #partitions: readonly string[];
  #totalAtStart: number | null;
  readonly #seen = new KeyFilter();
  readonly #pageSize: { limit: number };
  readonly #stop = new AbortController();
  readonly #earlierMs: number;
  readonly #began: number;
  #ordinal = 0;

  private constructor(
    options: ExtractionOptions,
    journal: Journal,
    start: { total: number | null; partitions: readonly string[] },
  ) {
    const { resume } = options;
    this.#options = options;
    this.#journal = journal;
    this.#partitions = start.partitions;
    this.#totalAtStart = start.total;
    this.#pageSize = { limit: options.pageSize };
    this.#cursors = resume?.cursors ?? new Map();
    this.live = { ...(resume?.counters ?? noCounters) };
    this.#earlierMs = this.live.milliseconds;
    this.#began = options.clock.monotonic();
    this.#columns = startingColumns(options);
    this.#writer = new PartWriter({
      folder: join(options.folder, 'parts'),
      spoolFolder: join(options.folder, 'spool'),
      key: options.source.key,
      compression: options.compression,
      columns: this.#columns,
      converter: options.converter,
      journal,
      parts: resume?.parts.at(-1)?.number ?? 0,
      counters: () => this.counters(),
    });
  }

  /** Prepares the folder, and goes on from `resume` where that is given and its parts are whole. */
  static async begin(given: ExtractionOptions): Promise<StreamExtraction> {
    const resumable = await preparePartsFolder(given.folder, given.resume, given.source.key, given.database);
    const options = resumable ? given : { ...given, resume: undefined };
    const journal = await Journal.open(options.folder, options.resume?.length ?? 0);
    if (options.resume !== undefined) return new StreamExtraction(options, journal, options.resume.start);
    const { partition, startedAt, stream, fingerprint } = options;
    const partitions = partition === undefined ? [whole] : partition.values.map((value) => `=${value}`);
    const extraction = new StreamExtraction(options, journal, { partitions, total: null });
    try {
      const total = partition !== undefined || options.checkTotal ? await extraction.#total() : null;
      await journal.append({
        type: 'start',
        version: 1,
        stream,
        fingerprint,
        started_at: startedAt,
        total,
        partitions,
      });
      extraction.#totalAtStart = total;
      return extraction;
    } catch (error) {
      await extraction.close();
      throw error;
    }
  }

  /** Whether it goes on from what an earlier process has read. */
  get resumed(): boolean {
    return this.#options.resume !== undefined;
  }

  counters(): Counters {
    const milliseconds = this.#earlierMs + Math.round(this.#options.clock.monotonic() - this.#began);
    return { ...this.live, milliseconds };
  }

  /**
   * Reads every partition to its last page. What was read before a failure or an interruption is in the journal when the
   * error is thrown.
   */
  async read(): Promise<void> {
    await this.#checkpointed(async () => {
      await this.#readAll(this.#partitions);
      if (this.#partitions[0] !== whole || this.#options.checkTotal) await this.#complete();
    });
  }

  /** Reads the whole list once more, unpartitioned: records that the first reading missed are added. */
  async readAgain(): Promise<void> {
    await this.#checkpointed(() => this.#readAll([wholeAgain]));
  }

  /**
   * Adds a record that was asked for by its key.
   * @returns whether it was kept: false where it does not match the stream's filter any more
   * @throws {CdsyncError} `malformed_response` where the answer is not the record with that key
   */
  async addSingle(key: string, body: Buffer): Promise<boolean> {
    const { filter, stream, source } = this.#options;
    if (!isRecord(body, source, key)) {
      throw new CdsyncError('the service answered a request for one record with something else', {
        code: 'malformed_response',
        stream,
      });
    }
    if (!hasAttributes(body, source, filter.keys())) return false;
    let kept = false;
    const scanner = this.#scanner(filter);
    await this.#writer.add(
      () => {
        const page = scanner.scan(body, 0, body.length);
        kept = page.records === 1 && page.mismatches === 0;
        if (kept) {
          this.live.read += 1;
          this.live.kept += 1;
        }
        return kept ? page : { ...page, records: 0, rejects: [] };
      },
      single,
      { token: null, issued_at: null, pages: 0, attempt: 1, done: true },
    );
    return kept;
  }

  /** Everything read so far, with all of it in parts; more may be added afterwards. */
  async extracted(): Promise<Extracted> {
    await this.#writer.flush();
    const state = await Journal.read(this.#options.folder);
    if (state === undefined) throw new Error('the journal of a running extraction is gone');
    return extracted(this.#options.folder, state, this.#columns, this.counters());
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#writer.close();
    await this.#journal.close();
  }

  async #checkpointed(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      await this.#writer.flush();
    } catch (thrown) {
      const error = asCdsyncError(thrown);
      error.stream ??= this.#options.stream;
      // The first error is the one to tell; a checkpoint that cannot be made either only means reading more again.
      await this.#writer.flush().catch(() => undefined);
      if (failuresByContent.has(error.code)) {
        await this.#writer.note({ type: 'failed', code: error.code }).catch(() => undefined);
      }
      throw error;
    }
  }

  async #readAll(partitions: readonly string[]): Promise<void> {
    const limit = pLimit(this.#options.concurrency);
    const stop = new AbortController();
    const failures: unknown[] = [];
    const chains = partitions.map((partition) =>
      limit(async () => {
        const start = this.#cursors.get(partition) ?? {
          token: null,
          issued_at: null,
          pages: 0,
          attempt: 1,
          done: false,
        };
        if (start.done || stop.signal.aborted) return;
        try {
          const filter = this.#partitionFilter(partition);
          await new PageChain(this.#chainContext(filter, stop.signal), {
            partition,
            ordinal: this.#ordinal++,
            filter,
            start,
          }).read();
        } catch (error) {
          failures.push(error);
          stop.abort();
        }
      }),
    );
    await Promise.all(chains);
    if (failures.length > 0) throw failures[0];
    this.#options.signal.throwIfAborted();
  }

  #partitionFilter(partition: string): ReadonlyMap<string, string> {
    const { filter } = this.#options;
    const attribute = this.#options.partition?.attribute;
    if (!partition.startsWith('=') || attribute === undefined) return filter;
    return new Map([...filter, [attribute, partition.slice(1)]]);
  }

  #scanner(filter: ReadonlyMap<string, string>): RecordScanner {
    const { container, key } = this.#options.source;
    return new RecordScanner(this.#columns, { container, key, filter });
  }

  #chainContext(filter: ReadonlyMap<string, string>, stop: AbortSignal): ChainContext {
    const { stream, source, client, clock, signal } = this.#options;
    return {
      stream,
      source,
      client,
      clock,
      meter: this.live,
      signal: AbortSignal.any([signal, stop]),
      scanner: this.#scanner(filter),
      writer: this.#writer,
      seen: this.#seen,
      pageSize: this.#pageSize,
      onPage: (page) => this.#count(page),
    };
  }

  #count(page: ScannedPage): void {
    this.live.pages += 1;
    this.live.read += page.records + page.rejects.length;
    this.live.kept += page.records;
    this.live.rejected += page.rejects.length;
    this.live.replaced += page.replacedSurrogates;
  }

  /** Partitions may leave records out (the attribute missing, a value not listed), so their union is counted. */
  async #complete(): Promise<void> {
    const wanted = await this.#wanted();
    if (wanted !== null && (await this.#distinctKeys()) >= wanted) return;
    if (this.#partitions[0] !== whole) await this.#readAll([whole]);
    else await this.#readAll([wholeAgain]);
    if (!this.#options.checkTotal) return;
    const found = await this.#distinctKeys();
    const least = Math.min(this.#totalAtStart ?? 0, (await this.#total()) ?? 0);
    if (found >= least) return;
    throw new CdsyncError(
      `the list has ${least} records by its own total, but ${found} came, also on a second reading`,
      {
        code: 'total_mismatch',
        hint: 'the service withholds records; run again, or set `check_total: false` if its totals are known to be wrong',
      },
    );
  }

  async #wanted(): Promise<number | null> {
    const after = await this.#total();
    return after === null || this.#totalAtStart === null ? null : Math.max(after, this.#totalAtStart);
  }

  async #distinctKeys(): Promise<number> {
    const { parts } = await this.extracted();
    if (parts.length === 0) return 0;
    const session = await this.#options.database.connect();
    try {
      const files = sqlTexts(parts.map(({ keysPath }) => keysPath));
      return await session.number(`SELECT count(DISTINCT key) FROM read_parquet(${files})`);
    } finally {
      session.close();
    }
  }

  async #total(): Promise<number | null> {
    const { source, client, filter, signal } = this.#options;
    const operation = source.page({ token: null, limit: 1, filter, withTotal: true });
    return client.send(operation, readTotal, { signal, meter: this.live });
  }
}

function startingColumns({ source, columns, resume }: ExtractionOptions): ColumnSet {
  const set = columns === undefined ? new ColumnSet(source.declared) : ColumnSet.restore(columns);
  const last = resume?.parts.at(-1);
  if (last !== undefined) set.merge(ColumnSet.restore(last.columns));
  return set;
}

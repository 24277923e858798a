import { join } from 'node:path';
import pLimit from 'p-limit';
import type { RequestMeter, ServiceClient } from '../client/client.js';
import type { Clock } from '../core/clock.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { sqlTexts } from '../core/sql.js';
import type { ColumnRules } from '../rows/column-rules.js';
import { ColumnSet, type StoredColumn } from '../rows/columns.js';
import type { Database } from '../store/duckdb.js';
import { type Counters, Journal, type JournalState, noCounters, type PartitionCursor } from '../store/journal.js';
import type { ParquetCompression } from '../store/parquet.js';
import type { ListSource, Source, Window } from '../streams/source.js';
import { merged, type Span } from '../streams/windows.js';
import type { PartMaker } from './convert/part-maker.js';
import { type Extracted, extracted, preparePartsFolder } from './extracted.js';
import { KeyFilter } from './key-filter.js';
import { KeyedFetcher } from './keyed-fetcher.js';
import { type ChainContext, PageChain } from './page-chain.js';
import { type FetchContext, ListFetcher, type ListRequest, type PageFetcher, readTotal } from './page-fetcher.js';
import { PartWriter } from './part-writer.js';
import { chunkOf, type Partition, partitionName, partitionNamed, partitionsOf, windowsOf } from './partition.js';
import { RecordScanner } from './scan/record-scanner.js';
import type { ScannedPage } from './scan/scanned-page.js';
import { hasAttributes, isRecord } from './scan/single-record.js';

/** Chunks of keys that are asked for at once; their requests share the stream's concurrency. */
const chunksAtOnce = 4;
/** Failures by what was read: reading on from the checkpoint would only meet them again. */
const failuresByContent = new Set([
  'page_loop',
  'dead_token',
  'filter_ignored',
  'total_mismatch',
  'members_incomplete',
  'bad_request',
  'not_found',
]);

export interface ExtractionOptions {
  readonly stream: string;
  readonly source: Source;
  readonly filter: ReadonlyMap<string, string>;
  /** Splits the list: one chain for each value of an attribute. */
  readonly partition: { readonly attribute: string; readonly values: readonly string[] } | undefined;
  /** Of a list that is read in windows of time: those to be read. */
  readonly windows: readonly Window[];
  /** Of the same: keys of the records that had not ended. */
  readonly unfinished: readonly string[];
  /** Of the same: what earlier runs have read for good. */
  readonly covered: readonly Window[];
  readonly pageSize: number;
  /** Chains, and requests for single records, at once. */
  readonly concurrency: number;
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly database: Database;
  readonly converter: PartMaker;
  readonly compression: ParquetCompression;
  /** `streams/<stream>` of the run's private folder. */
  readonly folder: string;
  /** Of the request and all that shapes the parts. */
  readonly fingerprint: string;
  /** When the stream's reading began. */
  readonly startedAt: string;
  /** What is known of the columns from the last snapshot. */
  readonly columns: readonly StoredColumn[] | undefined;
  readonly rules: ColumnRules;
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
  missing: number;
}

/** Reads one stream of the service completely into parts, with checkpoints from which a later process goes on. */
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
  readonly #requestLimit: ReturnType<typeof pLimit>;
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
    this.#requestLimit = pLimit(options.concurrency);
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
      rules: options.rules,
      maker: options.converter,
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
    const { startedAt, stream, fingerprint } = options;
    const partitions = partitionsOf(options).map(partitionName);
    const extraction = new StreamExtraction(options, journal, { partitions, total: null });
    try {
      const total = extraction.#countsRecords ? await extraction.#total() : null;
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

  get key(): readonly string[] {
    return this.#options.source.key;
  }

  get brings(): Source['brings'] {
    return this.#options.source.brings;
  }

  /**
   * What of time has been read for good, this reading included; undefined where time does not matter. What lies beyond our
   * own clock does not count: should it be the service's that is wrong, it is read again.
   */
  get covered(): Window[] | undefined {
    const { source, covered, resume, startedAt } = this.#options;
    const began = resume?.start.started_at ?? startedAt;
    if (source.kind === 'windowed') {
      const spans = [...covered, ...windowsOf(this.#partitions)].map(
        ({ from, to }): Span => [Date.parse(from), Math.min(Date.parse(to), Date.parse(began))],
      );
      return merged(spans).map(([from, to]) => ({
        from: new Date(from).toISOString(),
        to: new Date(to).toISOString(),
      }));
    }
    return source.kind === 'list' && source.brings === 'additions' ? [{ from: began, to: began }] : undefined;
  }

  /** Whether the list's own total is asked for, to be compared with what came. */
  get #countsRecords(): boolean {
    const { source, partition, checkTotal } = this.#options;
    return source.kind === 'list' && (partition !== undefined || checkTotal || source.distrustsTokens === true);
  }

  /**
   * Reads every partition to its last page. What was read before a failure or an interruption is in the journal when the
   * error is thrown.
   */
  async read(): Promise<void> {
    const { source } = this.#options;
    await this.#checkpointed(async () => {
      if (source.kind === 'list' && source.distrustsTokens) return this.#readByTotal(source);
      await this.#readAll(this.#partitions.map(partitionNamed));
      if (this.#countsRecords) await this.#complete();
    });
  }

  /** What of a list can be asked once more; undefined where absent records are gone: nothing else, or proved by the list's total. */
  get confirmable():
    | (Pick<StreamExtraction, 'readAgain' | 'addSingle'> & { readonly one: ListSource['one'] | undefined })
    | undefined {
    const { source } = this.#options;
    if (source.kind !== 'list' || source.distrustsTokens === true) return undefined;
    return {
      one: source.one,
      readAgain: () => this.readAgain(),
      addSingle: (key, body) => this.addSingle(key, body),
    };
  }

  /** Reads the whole list once more, unpartitioned: records that the first reading missed are added. */
  async readAgain(): Promise<void> {
    await this.#checkpointed(() => this.#readAll([{ kind: 'again' }]));
  }

  /**
   * Adds a record that was asked for by its key.
   * @returns whether it was kept: false where it does not match the stream's filter any more
   * @throws {CdsyncError} `malformed_response` where the answer is not the record with that key
   */
  async addSingle(key: string, body: Buffer): Promise<boolean> {
    const { filter, stream } = this.#options;
    const source = this.#list();
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
      partitionName({ kind: 'single' }),
      { token: null, issued_at: null, pages: 0, attempt: 1, done: true },
    );
    return kept;
  }

  /** Everything read so far, with all of it in parts; more may be added afterwards. */
  async extracted(): Promise<Extracted> {
    await this.#writer.flush();
    const state = await Journal.read(this.#options.folder);
    if (state === undefined) throw new Error('the journal of a running extraction is gone');
    const kept = ColumnSet.restore(this.#options.rules.keep(this.#columns.store()));
    return extracted(this.#options.folder, state, kept, this.counters());
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

  #list(): ListSource {
    const { source } = this.#options;
    if (source.kind !== 'list') throw new TypeError(`a ${source.kind} source is no list`);
    return source;
  }

  async #readAll(partitions: readonly Partition[], pageSize = this.#pageSize): Promise<void> {
    const { concurrency, source, signal } = this.#options;
    const limit = pLimit(source.kind === 'keyed' ? chunksAtOnce : concurrency);
    const stop = new AbortController();
    const failures: unknown[] = [];
    const context = this.#fetchContext(AbortSignal.any([signal, stop.signal]), pageSize);
    const chains = partitions.map((partition) =>
      limit(async () => {
        const name = partitionName(partition);
        const start = this.#cursors.get(name) ?? {
          token: null,
          issued_at: null,
          pages: 0,
          attempt: 1,
          done: false,
        };
        if (start.done || stop.signal.aborted) return;
        try {
          await new PageChain(this.#chainContext(this.#partitionFilter(partition)), {
            partition: name,
            ordinal: this.#ordinal++,
            fetcher: this.#fetcher(partition, context),
            start,
            distrustsTokens: source.kind === 'list' && source.distrustsTokens === true,
          }).read();
        } catch (error) {
          failures.push(error);
          stop.abort();
        }
      }),
    );
    await Promise.all(chains);
    if (failures.length > 0) throw failures[0];
    signal.throwIfAborted();
  }

  #fetchContext(signal: AbortSignal, pageSize: { limit: number }): FetchContext {
    const { client, clock } = this.#options;
    return { client, clock, signal, pageSize, meter: this.live };
  }

  #fetcher(partition: Partition, context: FetchContext): PageFetcher {
    const { source } = this.#options;
    if (source.kind === 'keyed') {
      if (partition.kind !== 'keys') throw misplaced(partition, source);
      return new KeyedFetcher(context, chunkOf(partition.chunk, source.requests), {
        mayMiss: source.mayMiss,
        limit: this.#requestLimit,
      });
    }
    const { added } = source;
    if (source.kind === 'windowed') {
      const { one } = source;
      if (partition.kind === 'record' && one !== undefined) {
        const request = { operation: () => one(partition.key), answers: 'record', added } as const;
        return new KeyedFetcher(context, [request], { mayMiss: true, limit: this.#requestLimit });
      }
      if (partition.kind !== 'window') throw misplaced(partition, source);
      const { from, to } = partition;
      const page = (request: ListRequest) =>
        source.page({ ...request, filter: new Map(), withTotal: false, window: { from, to } });
      return new ListFetcher(context, page, { added, takesLimit: source.takesLimit });
    }
    const filter = this.#partitionFilter(partition);
    const page = (request: ListRequest) => source.page({ ...request, filter, withTotal: false });
    return new ListFetcher(context, page, { added, takesLimit: true });
  }

  #partitionFilter(partition: Partition): ReadonlyMap<string, string> {
    const { filter } = this.#options;
    const attribute = this.#options.partition?.attribute;
    const isFiltered = partition.kind === 'value' && attribute !== undefined;
    return isFiltered ? new Map([...filter, [attribute, partition.value]]) : filter;
  }

  #scanner(filter: ReadonlyMap<string, string>): RecordScanner {
    const { container, key } = this.#options.source;
    return new RecordScanner(this.#columns, { container, key, filter });
  }

  #chainContext(filter: ReadonlyMap<string, string>): ChainContext {
    return {
      stream: this.#options.stream,
      meter: this.live,
      scanner: this.#scanner(filter),
      writer: this.#writer,
      seen: this.#seen,
      onPage: (page, missing) => this.#count(page, missing),
    };
  }

  #count(page: ScannedPage, missing: number): void {
    this.live.pages += 1;
    this.live.read += page.records + page.rejects.length;
    this.live.kept += page.records;
    this.live.rejected += page.rejects.length;
    this.live.replaced += page.replacedSurrogates;
    this.live.missing += missing;
  }

  /**
   * Reads a list whose page tokens may lead back to its start. What its total says is missing is asked for once more, in
   * one page that is large enough.
   */
  async #readByTotal(source: ListSource): Promise<void> {
    let circled = await this.#endsInCircle([{ kind: 'whole' }]);
    const wanted = await this.#wanted();
    if (wanted === null ? !circled : (await this.#distinctKeys()) >= wanted) return;
    const large = { limit: Math.max(this.#pageSize.limit, wanted ?? 0) };
    circled = await this.#endsInCircle([{ kind: 'again' }], large);
    const after = await this.#total();
    const least = after === null || wanted === null ? null : Math.min(after, this.#totalAtStart ?? wanted);
    const found = await this.#distinctKeys();
    if (least === null ? !circled : found >= least) return;
    const label = source.page({ token: null, limit: 1, filter: new Map(), withTotal: false }).label;
    throw new CdsyncError(
      `${label} brought ${found} members of ${least ?? 'an unknown number'}, also in one large page`,
      {
        code: 'members_incomplete',
        hint: 'the last snapshot stays; run again, and report it to the service if it stays so',
      },
    );
  }

  /** Whether the chains were given up because their tokens lead nowhere. */
  async #endsInCircle(partitions: readonly Partition[], pageSize = this.#pageSize): Promise<boolean> {
    try {
      await this.#readAll(partitions, pageSize);
      return false;
    } catch (error) {
      if (error instanceof CdsyncError && (error.code === 'page_loop' || error.code === 'dead_token')) return true;
      throw error;
    }
  }

  /** Partitions may leave records out (the attribute missing, a value not listed), so their union is counted. */
  async #complete(): Promise<void> {
    const isPartitioned = partitionNamed(this.#partitions[0] ?? '*').kind !== 'whole';
    const wanted = await this.#wanted();
    const came = await this.#distinctKeys();
    // Some may have been deleted meanwhile; a total that is far too small says nothing of what the partitions leave out.
    const most = isPartitioned ? (wanted ?? 0) + Math.max(10, came / 100) : Number.POSITIVE_INFINITY;
    if (wanted !== null && came >= wanted && came <= most) return;
    await this.#readAll([{ kind: isPartitioned ? 'whole' : 'again' }]);
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
    const { client, filter, signal } = this.#options;
    const operation = this.#list().page({ token: null, limit: 1, filter, withTotal: true });
    return client.send(operation, readTotal, { signal, meter: this.live });
  }
}

function startingColumns({ source, columns, resume, rules }: ExtractionOptions): ColumnSet {
  const set = rules.begin(source.declared, columns);
  const last = resume?.parts.at(-1);
  if (last !== undefined) set.merge(rules.begin([], last.columns));
  return set;
}

function misplaced(partition: Partition, source: Source): TypeError {
  return new TypeError(`a ${source.kind} source has no partition of kind ${partition.kind}`);
}

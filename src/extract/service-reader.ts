import { hidesValues } from '../columns/column-rules.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import type { Pass, ReportedWarning } from '../core/run-report.js';
import type { RecordHashTable } from '../record-cache/hash-table.js';
import type { NextCache, StreamCache } from '../record-cache/stream-cache.js';
import { requireOwner } from '../sources/key-owner.js';
import type { ListSource, Source, Window } from '../sources/source.js';
import { settled } from '../sources/windows.js';
import {
  type Counters,
  firstCursor,
  Journal,
  journalVersion,
  noCounters,
  type PartitionCursor,
} from '../storage/journal.js';
import { beginExtraction, type ExtractionOptions } from './begin-extraction.js';
import { type CountedRead, readWithTotal } from './completeness.js';
import { ListTotal } from './list-total.js';
import { PageChain, type ReadTask } from './page-chain.js';
import { fetchSinglePage, singlePageFetcher } from './page-fetcher.js';
import {
  type Partition,
  partitionLabel,
  partitionName,
  partitionNamed,
  partitionsOf,
  type ReadingSplit,
  splitOf,
} from './partition.js';
import { collectReadResult, distinctKeys, type LiveCounters, type ReadResult } from './read-result.js';
import { hasAttributes, isRecord } from './scan/exact-record.js';
import { StreamSink } from './stream-sink.js';
import { TaskRunner } from './task-runner.js';

const requestCounts = ['requests', 'retries', 'throttled', 'bytes'] as const;

/** Reads one stream of the service completely into parts, with checkpoints from which a later process resumes. */
export class ServiceReader {
  readonly live: LiveCounters;
  readonly #options: ExtractionOptions;
  readonly #journal: Journal;
  readonly #sink: StreamSink;
  readonly #runner: TaskRunner;
  readonly #recognition: StreamCache | undefined;
  readonly #cursors: ReadonlyMap<string, PartitionCursor>;
  readonly #partitions: readonly Partition[];
  #totalAtStart: number | null;
  readonly passes: Pass[] = [];
  readonly #total: ListTotal;
  #hasTotal = true;
  readonly #earlierMs: number;
  readonly #began: number;
  #ordinal = 0;

  private constructor(
    options: ExtractionOptions,
    journal: Journal,
    start: {
      readonly total: number | null;
      readonly partitions: readonly Partition[];
      readonly recognition: StreamCache | undefined;
    },
  ) {
    const { resume, source, client, clock, signal, atOnce, known, notice } = options;
    this.#options = options;
    this.#journal = journal;
    this.#partitions = start.partitions;
    this.#totalAtStart = start.total;
    this.#recognition = start.recognition;
    this.#cursors = resume?.cursors ?? new Map();
    this.live = { ...(resume?.counters ?? noCounters) };
    for (const name of requestCounts) this.live[name] += options.meter[name];
    this.#total = new ListTotal(client, { signal, meter: this.live, notice });
    this.#earlierMs = this.live.milliseconds;
    this.#began = clock.monotonic();
    this.#sink = new StreamSink({
      ...options,
      journal,
      live: this.live,
      counters: () => this.counters(),
      recognition: start.recognition,
    });
    this.#runner = new TaskRunner({
      source,
      client,
      clock,
      signal,
      meter: this.live,
      atOnce,
      known,
      notice,
      showsValues: options.showsValues,
      labelOf: ({ partition }) => this.#labelOf(partition),
      sinkOf: (task) => this.#sink.of(task),
    });
  }

  /** Prepares the folder. Resumes from `resume` if that is given and its parts are undamaged. */
  static async begin(requested: ExtractionOptions): Promise<ServiceReader> {
    const { resume, recognition } = await beginExtraction(requested);
    const options = { ...requested, resume };
    const { startedAt, stream, fingerprint, folder } = options;
    const partitions = resume?.start.partitions.map(partitionNamed) ?? partitionsOf(options);
    const journal = await Journal.open(folder, resume);
    const begun = { partitions, recognition, total: resume?.start.total ?? null };
    const extraction = new ServiceReader(options, journal, begun);
    if (resume !== undefined) return extraction;
    try {
      const counted = extraction.#counted;
      // Where one response may be the whole list, the service may refuse to be asked for a total.
      const total = counted === undefined || counted.readInOneAnswer !== undefined ? null : await counted.total();
      const names = partitions.map(partitionName);
      const about = { version: journalVersion, stream, fingerprint, started_at: startedAt } as const;
      const hashed = recognition === undefined ? {} : { recognition: recognition.journaled };
      await journal.append({ type: 'start', ...about, total, partitions: names, ...hashed });
      extraction.#totalAtStart = total;
      return extraction;
    } catch (error) {
      for (const name of requestCounts) options.meter[name] = extraction.live[name];
      await extraction.close();
      throw error;
    }
  }

  /** How many records the list had by its own count when the reading began; null if it was not asked. */
  get total(): number | null {
    return this.#totalAtStart;
  }

  /** Whether the reading resumes that of an earlier process. */
  get resumed(): boolean {
    return this.#options.resume !== undefined;
  }

  /** How the list is split; undefined if it is read as one. */
  get split(): ReadingSplit | undefined {
    return splitOf(this.#partitions, this.#options.partition, this.passes);
  }

  /** The counters of the processes whose reading it resumes. */
  get earlier(): Counters {
    return this.#options.resume?.counters ?? noCounters;
  }

  #labelOf(partition: Partition): string | undefined {
    const { partition: split, rules } = this.#options;
    const attribute = split !== undefined && 'attribute' in split ? split.attribute : undefined;
    return partitionLabel(partition, { attribute, hides: (name) => hidesValues(rules.of('attribute', name)) });
  }

  /** Warnings about the reading. */
  get warnings(): readonly ReportedWarning[] {
    if (this.#hasTotal) return [];
    return [{ code: 'total_missing', message: '`check_total` checked nothing: the service gave no total' }];
  }

  counters(): Counters {
    const milliseconds = this.#earlierMs + Math.round(this.#options.clock.monotonic() - this.#began);
    return { ...this.live, milliseconds };
  }

  get key(): readonly string[] {
    return this.#options.source.key;
  }

  get coverage(): Source['coverage'] {
    return this.#options.source.coverage;
  }

  /**
   * The spans of time that need no further reading, including this one ({@link settled}); undefined if the stream is not read
   * by time.
   */
  get covered(): Window[] | undefined {
    const { source, covered, resume, startedAt } = this.#options;
    const began = resume?.start.started_at ?? startedAt;
    if (source.kind === 'windowed') {
      const windows = this.#partitions.filter((partition) => partition.kind === 'window');
      const read = windows.map((window) => ({ ...window, isEmpty: !this.#sink.received(window) }));
      return settled({ covered, read, beganMs: Date.parse(began), certainMs: source.certainMs });
    }
    return source.kind === 'list' && source.coverage === 'additions' ? [{ from: began, to: began }] : undefined;
  }

  /** The list, to be checked against its own total; undefined if the total is not needed. */
  get #counted(): CountedRead | undefined {
    const { source, checkTotal, filter, pageSize } = this.#options;
    const distrustsTokens = source.kind === 'list' && source.distrustsTokens === true;
    if (source.kind !== 'list') return undefined;
    if (this.split === undefined && !checkTotal && !distrustsTokens) return undefined;
    const operation = source.page({ token: null, limit: 1, filter, withTotal: true });
    return {
      label: operation.label,
      distrustsTokens,
      checkTotal,
      totalAtStart: this.#totalAtStart,
      readInOneAnswer: source.plain === undefined ? undefined : () => this.#readInOneAnswer(source),
      partitions: this.#partitions,
      pageSize: () => this.#runner.pageSize(pageSize).limit,
      total: () => this.#total.ask(operation, distrustsTokens),
      partitionKeys: this.#cursors.get(partitionName({ kind: 'whole' }))?.partition_keys,
      read: async (partitions, options = {}) => {
        const tasks = partitions.map((partition) => this.#task(partition, options));
        if (options.partitionKeys !== undefined) await this.#pass('parts', tasks);
        else if (partitions[0]?.kind === 'again') await this.#pass('total', tasks);
        else await this.#runner.run(tasks);
      },
      distinctKeys: async () => distinctKeys(this.#options.database, await this.extracted()),
      hasNoTotal: () => {
        this.#hasTotal = false;
      },
      missed: (records) => {
        const last = this.passes.at(-1);
        if (last !== undefined) last.added = records;
      },
    };
  }

  async #readInOneAnswer(source: ListSource): Promise<boolean> {
    const task = this.#task({ kind: 'answer' });
    if (task.start.done) return true;
    // An earlier process has found that it must read in pages.
    if (this.#cursors.size > 0) return false;
    const { client, clock, signal, pageSize } = this.#options;
    const context = { client, clock, signal, meter: this.live, pageSize: { limit: pageSize } };
    const ask = () => fetchSinglePage(context, source);
    const response = await ask();
    if (!response.isWhole) {
      response.page.response?.dispose();
      return false;
    }
    const fetcher = singlePageFetcher(response, ask);
    await new PageChain(task, { fetcher, meter: this.live, sink: this.#sink.of(task) }).read();
    return true;
  }

  /**
   * Reads every partition to its last page. After a failure or an interruption, everything read so far is in the journal
   * before the error is thrown.
   */
  read(): Promise<void> {
    const counted = this.#counted;
    return this.#checkpointed(async () => {
      if (counted === undefined) await this.#runner.run(this.#partitions.map((partition) => this.#task(partition)));
      else await readWithTotal(counted);
      this.#requireFiltered();
      await this.#requireOwner();
    });
  }

  /** A filter on an attribute that none of the records has was ignored: by it, the service had to leave all of them out. */
  #requireFiltered(): void {
    const { source, filter } = this.#options;
    // Records that the cache had were compared with the filter when they were scanned.
    if (source.kind !== 'list' || this.live.kept === 0 || this.live.cached > 0) return;
    const [attribute] = this.#sink.unevaluated(filter.keys());
    if (attribute === undefined) return;
    throw new CdsyncError(`${this.live.kept} records came for the filter on "${attribute}", all of them without it`, {
      code: 'filter_ignored',
      hint: 'the service seems to ignore the filter: is the name right, and is the attribute available for filtering?',
    });
  }

  /** If no key exists, the parent that was asked for them may not exist either. */
  async #requireOwner(): Promise<void> {
    const { source, client, signal } = this.#options;
    const { kept, missing, read } = this.live;
    if (source.kind !== 'keyed' || source.owner === undefined || missing === 0 || kept > 0 || read > this.live.rejected)
      return;
    await requireOwner({ client, signal, meter: this.live }, source.owner);
  }

  /** How to confirm that absent records are deleted; undefined if the list cannot be asked again, or its total proves it. */
  get confirmable():
    | (Pick<ServiceReader, 'readAgain' | 'addSingle'> & { readonly one: ListSource['one'] | undefined })
    | undefined {
    const { source } = this.#options;
    if (source.kind !== 'list' || source.distrustsTokens === true) return undefined;
    return {
      one: source.one,
      readAgain: () => this.readAgain(),
      addSingle: (key, body) => this.addSingle(key, body),
    };
  }

  /** Why the cache was not used, in words; undefined if it was, or if it was never wanted. */
  get cacheUnusedBecause(): string | undefined {
    return this.#recognition?.reason;
  }

  /** The hashes from which the next run's record cache is made; undefined without one. */
  get nextCache(): NextCache | undefined {
    return this.#recognition?.next;
  }

  /** The hashes of the record cache; undefined if there are none. */
  get hashTable(): RecordHashTable | undefined {
    return this.#recognition?.records.table;
  }

  /** Reads the whole list once more, unpartitioned, and adds records that the first reading missed. */
  async readAgain(): Promise<Pass> {
    await this.#checkpointed(() => this.#pass('deletes', [this.#task({ kind: 'again' })]));
    return this.passes.at(-1) as Pass;
  }

  async #pass(reason: Pass['reason'], tasks: readonly ReadTask[]): Promise<void> {
    const before = this.live.read;
    const pass: Pass = { reason, records: 0, added: 0 };
    this.passes.push(pass);
    try {
      await this.#runner.run(tasks);
    } finally {
      pass.records = this.live.read - before;
    }
  }

  /**
   * Adds a record that was requested by its key.
   * @returns whether it is kept, among the records or the rejects; false if it no longer matches the stream's filter
   * @throws {CdsyncError} `malformed_response` if the response is not the record with that key
   */
  async addSingle(key: string, body: Buffer): Promise<boolean> {
    const { filter, stream, source } = this.#options;
    if (source.kind !== 'list') throw new TypeError(`a ${source.kind} source is not a list`);
    if (!isRecord(body, source, key)) {
      throw new CdsyncError('the service answered a request for one record with something else', {
        code: 'malformed_response',
        kind: 'fatal',
        stream,
      });
    }
    if (!hasAttributes(body, source, filter.keys())) return false;
    return this.#sink.addSingle(body, [...filter]);
  }

  /** Everything read so far, all of it in parts. More may be added afterwards. */
  async extracted(): Promise<ReadResult> {
    await this.#sink.flush();
    const state = await Journal.read(this.#options.folder);
    if (state === undefined) throw new Error('the journal of a running extraction is gone');
    const result = collectReadResult(this.#options.folder, state, this.#sink, this.counters());
    if (this.#recognition === undefined) return result;
    const { parts, counters, dropped } = result;
    const connect = () => this.#options.database.connect();
    const totals = { records: counters.cached, dropped };
    const { unchangedRows, superseded } = await this.#recognition.unchangedRows(connect, state, parts, totals);
    return { ...result, unchangedRows, dropped: [...dropped, ...superseded] };
  }

  async close(): Promise<void> {
    await this.#sink.close();
    await this.#recognition?.close();
    await this.#journal.close();
  }

  #task(
    partition: Partition,
    {
      pageSize = this.#options.pageSize,
      partitionKeys,
    }: { readonly pageSize?: number; readonly partitionKeys?: number } = {},
  ): ReadTask {
    const { filter, source } = this.#options;
    const start = this.#cursors.get(partitionName(partition)) ?? firstCursor;
    return {
      partition,
      ordinal: this.#ordinal++,
      filter: [...new Map([...filter, ...this.#valuesOf(partition)])],
      pageSize,
      distrustsTokens: source.kind === 'list' && source.distrustsTokens === true,
      start: partitionKeys === undefined ? start : { ...start, partition_keys: partitionKeys },
    };
  }

  /** The values that a part of a split list has. */
  #valuesOf(partition: Partition): readonly (readonly [string, string])[] {
    if (partition.kind === 'values') return partition.values;
    const { partition: split } = this.#options;
    return partition.kind === 'value' && split !== undefined && 'attribute' in split
      ? [[split.attribute, partition.value]]
      : [];
  }

  async #checkpointed(work: () => Promise<void>): Promise<void> {
    try {
      await this.#options.database.use('reading', {}, work);
      await this.#sink.drain();
    } catch (thrown) {
      const error = asCdsyncError(thrown);
      error.stream ??= this.#options.stream;
      // The first error is the one to report. If the checkpoint fails too, a later run only reads more again.
      await this.#sink.flush().catch(() => undefined);
      await this.#sink.recordRequests(this.counters()).catch(() => undefined);
      if (!error.resumable) await this.#sink.fail(error.code).catch(() => undefined);
      throw error;
    }
  }
}

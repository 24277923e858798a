import { join } from 'node:path';
import type { ColumnRules } from '../rows/column-rules.js';
import { ColumnSet, type StoredColumn } from '../rows/columns.js';
import { type Counters, firstCursor, type Journal, type JournalState, type PartitionCursor } from '../store/journal.js';
import type { ParquetCompression } from '../store/parquet.js';
import type { Source } from '../streams/source.js';
import type { PartMaker } from './convert/part-maker.js';
import { KeyFilter } from './key-filter.js';
import type { LiveCounters } from './live-counters.js';
import type { FetchedPage } from './page-fetcher.js';
import { type PageToWrite, PartWriter } from './part-writer.js';
import { type Partition, partitionName } from './partition.js';
import type { ReadTask, TaskIntake } from './read-task.js';
import type { PageView } from './recognise/recogniser.js';
import type { StreamRecognition } from './recognise/stream-recognition.js';
import { RecordScanner } from './scan/record-scanner.js';

export interface StreamIntakeOptions {
  readonly source: Source;
  /** `streams/<stream>` of the run's private folder. */
  readonly folder: string;
  readonly journal: Journal;
  /** The journal of an earlier process, to resume from. */
  readonly resume: JournalState | undefined;
  /** The columns of the last snapshot. */
  readonly columns: readonly StoredColumn[] | undefined;
  readonly rules: ColumnRules;
  readonly converter: PartMaker;
  readonly compression: ParquetCompression;
  /** Given if records are hashed, and recognised if they can be. */
  readonly recognition: StreamRecognition | undefined;
  /** Counters to update with every page. */
  readonly live: LiveCounters;
  /** The counters so far, for a checkpoint. */
  readonly counters: () => Counters;
}

/**
 * Takes in the pages of all tasks of a stream, one at a time: the tasks share its columns, its parts and its journal
 * (see docs/decisions/0003-one-batch-for-all-partitions.md).
 */
export class StreamIntake {
  readonly #options: StreamIntakeOptions;
  readonly #columns: ColumnSet;
  readonly #writer: PartWriter;
  readonly #seen = new KeyFilter();
  readonly #brought: Set<string>;

  constructor(options: StreamIntakeOptions) {
    this.#options = options;
    this.#columns = startingColumns(options);
    const parts = options.resume?.parts ?? [];
    this.#brought = new Set(parts.flatMap(({ segments }) => segments.map(([partition]) => partition)));
    const { folder, source, compression, rules, converter, journal, resume, recognition, counters } = options;
    this.#writer = new PartWriter({
      folder: join(folder, 'parts'),
      spoolFolder: join(folder, 'spool'),
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

  /** Whether this partition has brought any record. */
  brought(partition: Partition): boolean {
    return this.#brought.has(partitionName(partition));
  }

  /** The intake of one task. */
  of({ partition, ordinal, filter, distrustsTokens }: ReadTask): TaskIntake {
    const name = partitionName(partition);
    const scanner = this.#scanner(filter);
    return {
      take: async (page, cursor) => {
        const view = { isFirst: cursor.pages === 1, isFiltered: filter.length > 0 };
        const scanned = await this.#add((each) => this.#scan(scanner, each, view), page, name, cursor);
        const { mismatches, mismatchedAttribute } = scanned;
        const recognised = 'recognised' in scanned ? scanned.recognised : 0;
        const records = scanned.records + recognised;
        if (records > 0) this.#brought.add(name);
        const bringsNew = this.#bringsNew(scanned, ordinal * 8 + cursor.attempt, distrustsTokens);
        return { records, bringsNew, mismatches, mismatchedAttribute };
      },
      restart: (attempt) => {
        this.#options.recognition?.restarted();
        return this.#writer.note({ type: 'attempt', partition: name, attempt });
      },
    };
  }

  /**
   * Takes in a record that was requested by its key.
   * @returns whether it was kept; false if it no longer matches the filter
   */
  async addSingle(body: Buffer, filter: ReadTask['filter']): Promise<boolean> {
    const scanner = this.#scanner(filter);
    const cursor = { ...firstCursor, done: true };
    const { records } = await this.#writer.add(
      () => {
        const whole = { body, start: 0, end: body.length };
        const page =
          this.#options.recognition?.recogniser.scanAll(scanner, whole) ?? scanner.scan(body, 0, body.length);
        if (page.records !== 1 || page.mismatches !== 0) return notKept(page);
        this.#options.live.read += 1;
        this.#options.live.kept += 1;
        return page;
      },
      partitionName({ kind: 'single' }),
      cursor,
    );
    return records > 0;
  }

  /** On return, everything taken in is in parts and in the journal. */
  flush(): Promise<void> {
    return this.#writer.flush();
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

  #scan(scanner: RecordScanner, page: FetchedPage, view: PageView): PageToWrite {
    const { recognition } = this.#options;
    return recognition === undefined
      ? scanner.scan(page.body, page.start, page.end)
      : recognition.recogniser.scan(scanner, page, view);
  }

  /**
   * Whether a key is new to the chain; of a record that is recognised, its bytes stand for its key. A record that is new to the run
   * is new to every chain, so it need not be remembered: a circle is then noticed in its second round, not in its first.
   * @param isExact whether the first page without anything new already matters
   */
  #bringsNew(page: PageToWrite, chain: number, isExact: boolean): boolean {
    const isFresh = 'recognised' in page && page.isFresh && !isExact;
    const recognised = 'recognised' in page && !isFresh && this.#seen.add(page.knownHashes, chain);
    return this.#seen.add(page.keyHashes, chain) || recognised || isFresh;
  }

  #add(
    scan: (page: FetchedPage) => PageToWrite,
    page: FetchedPage,
    name: string,
    cursor: PartitionCursor,
  ): Promise<PageToWrite> {
    const counted = () => {
      const scanned = scan(page);
      this.#count(scanned, page.missing);
      return scanned;
    };
    return this.#writer.add(counted, name, cursor);
  }

  #count(page: PageToWrite, missing: number): void {
    const { live } = this.#options;
    const recognised = 'recognised' in page ? page.recognised : 0;
    live.pages += 1;
    live.recognised += recognised;
    live.read += page.records + page.rejects.length + recognised;
    live.kept += page.records + recognised;
    live.rejected += page.rejects.length;
    live.replaced += page.replaced;
    live.missing += missing;
  }
}

function startingColumns({ source, columns, resume, rules }: StreamIntakeOptions): ColumnSet {
  const set = rules.begin(source.declared, columns);
  const last = resume?.parts.at(-1);
  if (last !== undefined) set.merge(rules.begin([], last.columns));
  return set;
}

/** The page of a record that no longer matches: nothing of it is kept. */
function notKept(page: PageToWrite): PageToWrite {
  const nothing = { ...page, records: 0, rejects: [] };
  return 'raw' in nothing ? { ...nothing, raw: new Uint32Array(0) } : nothing;
}

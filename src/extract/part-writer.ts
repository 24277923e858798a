import { join } from 'node:path';
import type { ColumnRules } from '../columns/column-rules.js';
import type { ColumnSet, StoredColumn } from '../columns/columns.js';
import { wideColumns } from '../columns/row-hash.js';
import { callAfter } from '../core/clock.js';
import { writeFileAtomically } from '../core/durable.js';
import { sealedLines } from '../core/sealed-json.js';
import type { CacheHitsLog } from '../record-cache/cache-hits.js';
import type { LookedUpPage } from '../record-cache/record-cache.js';
import type { Counters, Journal, PartitionCursor } from '../storage/journal.js';
import type { ParquetCompression } from '../storage/parquet.js';
import { type PartRecord, partFiles } from '../storage/part.js';
import type { PartConverter } from './convert/converter.js';
import { StagingFile } from './convert/staging-file.js';
import type { Reject, ScannedPage } from './scan/scanned-page.js';

/** A part is made once the staging file and the rejects have this many bytes … */
const partBytes = 12_000_000;
/** … or after this time since its first page. The first parts of a run come sooner, for early checkpoints. */
const partMs = 5_000;
const firstPartsMs = [250, 1_000];
/** How many batches may wait for their conversion or be in it; more would only fill the disk. */
const pendingBatches = 3;

/** Pages that become one part, and how far each partition is with them. */
interface Batch {
  readonly stagingFile: StagingFile;
  segments: [partition: string, attempt: number, rows: number][];
  cursors: Record<string, PartitionCursor>;
  rejects: Reject[];
  rejectedBytes: number;
  maxRecordBytes: number;
  /** The hashes of the staged records, page by page; undefined if they are not hashed. */
  raw: Uint32Array[] | undefined;
  /** The counters of the stream after the last of these pages. */
  counters: Counters;
}

interface PartWriterOptions {
  /** `parts/` of the stream's run folder. */
  readonly folder: string;
  readonly stagingFolder: string;
  readonly key: readonly string[];
  readonly compression: ParquetCompression;
  readonly columns: ColumnSet;
  readonly rules: ColumnRules;
  readonly maker: PartConverter;
  readonly journal: Journal;
  /** Where to note the cache hits; left out: there are none. */
  readonly seen?: CacheHitsLog | undefined;
  /** Number of the last part of an earlier process; 0 for none. */
  readonly parts: number;
  /** The counters of the stream so far, including the page just scanned. */
  readonly counters: () => Counters;
}

function columnsNow(columns: ColumnSet) {
  return {
    version: columns.version,
    stored: columns.store(),
    types: columns.list.map(({ name, type }) => ({ name, type })),
  };
}

/** A scanned page, with its cache hits if the stream's records are hashed. */
export type PageToWrite = ScannedPage | LookedUpPage;

/**
 * Takes in pages, one at a time and in order, and makes parts of them. It writes a checkpoint line only after its part is
 * durable and the lines of all earlier parts are written. So the journal never names a page token beyond the data.
 */
export class PartWriter {
  readonly #options: PartWriterOptions;
  readonly #files: StagingFile[] = [];
  readonly #spare: StagingFile[] = [];
  #batch: Batch | undefined;
  #seen: ReturnType<typeof columnsNow>;
  #number: number;
  #lastWrite: Promise<unknown> = Promise.resolve();
  #journaled: Promise<unknown> = Promise.resolve();
  readonly #pending = new Set<Promise<unknown>>();
  #cancelTimer = () => {};
  #failure: unknown;

  constructor(options: PartWriterOptions) {
    this.#options = options;
    this.#number = options.parts;
    this.#seen = columnsNow(options.columns);
  }

  /**
   * Takes in one page. It calls `scan` when it is this page's turn, so that columns grow in the order of the records.
   * It waits while the conversion lags behind.
   */
  add<P extends PageToWrite>(scan: () => P, partition: string, cursor: PartitionCursor): Promise<P> {
    return this.#inTurn(async () => {
      // If the page cannot be scanned, the caller fetches it again; the writer continues.
      const page = scan();
      await this.#orFail(() => this.#takeIn(page, partition, cursor));
      return page;
    });
  }

  async #takeIn(page: PageToWrite, partition: string, cursor: PartitionCursor): Promise<void> {
    if (this.#batch !== undefined && this.#becameJson()) await this.#seal();
    const batch = this.#current();
    if ('raw' in page) this.#noteHashes(batch, page, partition, cursor);
    await batch.stagingFile.append(page);
    this.#rememberColumns();
    this.#count(batch, page, partition, cursor);
    if (batch.stagingFile.bytes + batch.rejectedBytes >= partBytes * this.#openChains) await this.#seal();
  }

  #noteHashes(batch: Batch, { raw, hitRuns }: LookedUpPage, partition: string, { attempt }: PartitionCursor): void {
    // If this batch gets no part, the next one has its number, and all of its rows come later.
    const [part, { records }] = [this.#number + 1, batch.stagingFile];
    for (const { rowsBefore, slots } of hitRuns)
      this.#options.seen?.add({ partition, attempt, part, row: records + rowsBefore, slots });
    batch.raw ??= [];
    batch.raw.push(raw);
  }

  /** Writes a line into the journal, after everything added before it. */
  note(entry: Parameters<Journal['append']>[0]): Promise<void> {
    return this.#inTurn(() =>
      this.#orFail(async () => {
        await this.#seal();
        await this.#drain();
        await this.#options.journal.append(entry);
      }),
    );
  }

  /** On return, everything added is in parts and in the journal. */
  flush(): Promise<void> {
    return this.#inTurn(() =>
      this.#orFail(async () => {
        await this.#seal();
        await this.#drain();
      }),
    );
  }

  /** The same; and the staging files are closed until the next page. */
  drain(): Promise<void> {
    return this.#inTurn(() =>
      this.#orFail(async () => {
        await this.#seal();
        await this.#drain();
        await this.#closeFiles();
      }),
    );
  }

  /** Closes the staging files. Pages that were not flushed are dropped. */
  async close(): Promise<void> {
    this.#cancelTimer();
    await this.#lastWrite.catch(() => undefined);
    await Promise.allSettled(this.#pending);
    await this.#closeFiles();
  }

  async #closeFiles(): Promise<void> {
    for (const file of this.#files) await file.close();
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#lastWrite.then(() => {
      if (this.#failure !== undefined) throw this.#failure;
      return work();
    });
    this.#lastWrite = result.catch(() => undefined);
    return result;
  }

  /** After an error in `work`, the writer accepts nothing more. */
  async #orFail(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#failure ??= error;
      throw error;
    }
  }

  #current(): Batch {
    if (this.#batch !== undefined) return this.#batch;
    const stagingFile = this.#spare.pop() ?? this.#addFile();
    stagingFile.reset();
    this.#batch = {
      stagingFile,
      segments: [],
      cursors: {},
      rejects: [],
      rejectedBytes: 0,
      maxRecordBytes: 0,
      raw: undefined,
      counters: this.#options.counters(),
    };
    const wait = (firstPartsMs[this.#number] ?? partMs) * this.#openChains;
    this.#cancelTimer = callAfter(wait, () => {
      this.#inTurn(() => this.#orFail(() => this.#seal())).catch(() => undefined);
    });
    return this.#batch;
  }

  #addFile(): StagingFile {
    const file = new StagingFile(join(this.#options.stagingFolder, `${this.#files.length}.json`));
    this.#files.push(file);
    return file;
  }

  /** Each column of a file takes longer than the values of a few rows: with many columns, parts are larger and later by this factor. */
  get #openChains(): number {
    return Math.min(10, Math.max(1, this.#options.columns.list.length / wideColumns));
  }

  /** Whether a column became JSON. Records staged before have other values in it, so they cannot share the next part. */
  #becameJson(): boolean {
    const { columns } = this.#options;
    if (columns.version === this.#seen.version) return false;
    const types = new Map(columns.list.map(({ name, type }) => [name, type]));
    return this.#seen.types.some(({ name, type }) => type !== 'JSON' && types.get(name) === 'JSON');
  }

  #rememberColumns(): void {
    const { columns } = this.#options;
    if (columns.version !== this.#seen.version) this.#seen = columnsNow(columns);
  }

  #count(batch: Batch, page: PageToWrite, partition: string, cursor: PartitionCursor): void {
    batch.counters = this.#options.counters();
    batch.cursors[partition] = cursor;
    batch.maxRecordBytes = Math.max(batch.maxRecordBytes, page.maxRecordBytes);
    for (const reject of page.rejects) {
      batch.rejects.push(reject);
      batch.rejectedBytes += reject.raw.length;
    }
    if (page.records === 0) return;
    const last = batch.segments.at(-1);
    if (last !== undefined && last[0] === partition && last[1] === cursor.attempt) last[2] += page.records;
    else batch.segments.push([partition, cursor.attempt, page.records]);
  }

  async #seal(): Promise<void> {
    const batch = this.#batch;
    if (batch === undefined) return;
    this.#cancelTimer();
    this.#batch = undefined;
    if (batch.stagingFile.records > 0) await batch.stagingFile.finish();
    const { stored } = this.#seen;
    const { counters } = batch;
    const number = batch.stagingFile.records > 0 || batch.rejects.length > 0 ? ++this.#number : undefined;
    const part = number === undefined ? Promise.resolve(null) : this.#makePart(batch, number, stored);
    const before = this.#journaled;
    const journaled = Promise.all([part, this.#options.seen?.sync(), before]).then(async ([made, seen]) => {
      this.#spare.push(batch.stagingFile);
      const cacheHits = seen === undefined ? {} : { seen };
      await this.#options.journal.append({
        type: 'checkpoint',
        part: made,
        cursors: batch.cursors,
        counters,
        ...cacheHits,
      });
    });
    this.#journaled = journaled;
    this.#track(journaled);
    while (this.#pending.size >= pendingBatches) await Promise.race(this.#pending);
  }

  async #makePart(batch: Batch, number: number, columns: readonly StoredColumn[]): Promise<PartRecord> {
    const { folder, maker, key, compression, rules } = this.#options;
    const files = partFiles(folder, number);
    if (batch.rejects.length > 0) {
      const rejects = batch.rejects.map(({ raw, ...reject }) => ({ ...reject, raw: raw.toString('utf8') }));
      await writeFileAtomically(files.rejectsPath, sealedLines(rejects));
    }
    const { segments, maxRecordBytes } = batch;
    const { path: stagingFile, records } = batch.stagingFile;
    const leftOut = rules.leaveOut(columns);
    const common = {
      number,
      segments,
      rejects: batch.rejects.length,
      max_record_bytes: maxRecordBytes,
      ...(leftOut.length === 0 ? {} : { left_out: leftOut }),
    };
    if (records === 0) return { ...common, rows: 0, bytes: 0, sha256: '', columns: rules.keep(columns) };
    const raw = batch.raw && joined(batch.raw);
    const sealed = { stagingFile, records, maxRecordBytes, columns, rules, key, number, files, compression, raw };
    return { ...common, ...(await maker.make(sealed)) };
  }

  #track(work: Promise<unknown>): void {
    const settled = work
      .catch((error) => {
        this.#failure ??= error;
      })
      .finally(() => this.#pending.delete(settled));
    this.#pending.add(settled);
  }

  async #drain(): Promise<void> {
    await Promise.all(this.#pending);
    if (this.#failure !== undefined) throw this.#failure;
  }
}

function joined(parts: readonly Uint32Array[]): Uint32Array {
  const whole = new Uint32Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

import type { RequestCounts, ServiceClient } from '../api/client.js';
import type { ColumnRules } from '../columns/column-rules.js';
import type { StoredColumn } from '../columns/columns.js';
import type { Clock } from '../core/clock.js';
import type { ConcurrencyController } from '../rate-limit/concurrency.js';
import { StreamCache, type StreamCacheOptions } from '../record-cache/stream-cache.js';
import type { Source, Window } from '../sources/source.js';
import type { Database } from '../storage/duckdb.js';
import type { JournalState } from '../storage/journal.js';
import type { ParquetCompression } from '../storage/parquet.js';
import type { PartConverter } from './convert/converter.js';
import type { ListSplit } from './partition.js';
import { preparePartsFolder } from './read-result.js';
import type { StoredRecords } from './record-details.js';

export interface ExtractionOptions {
  readonly stream: string;
  readonly source: Source;
  readonly filter: ReadonlyMap<string, string>;
  /** Splits the list into several chains. A reading that resumes keeps the chains that it began with. */
  readonly partition: ListSplit | undefined;
  /** For a list that is read in windows of time: the windows to read. */
  readonly windows: readonly Window[];
  /** For such a list: keys of the unfinished records. */
  readonly unfinished: readonly string[];
  /** For such a list whose pages leave out details: the last snapshot's records of it. */
  readonly known: StoredRecords;
  readonly notice: (line: string) => void;
  /** Whether notices may show ids. */
  readonly showsValues: boolean;
  /** The requests that opening the stream took. If the reading cannot begin, its own requests are added. */
  readonly meter: RequestCounts;
  /** For such a list: the spans that earlier runs have covered. */
  readonly covered: readonly Window[];
  readonly pageSize: number;
  /** How many chains, and how many requests for single records, run at once. */
  readonly atOnce: ConcurrencyController;
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly database: Database;
  readonly converter: PartConverter;
  readonly compression: ParquetCompression;
  /** `streams/<stream>` of the run's private folder. */
  readonly folder: string;
  /** Fingerprint of the request and of all that shapes the parts. */
  readonly fingerprint: string;
  /** When the stream's reading began. */
  readonly startedAt: string;
  /** The columns of the last snapshot. */
  readonly columns: readonly StoredColumn[] | undefined;
  readonly rules: ColumnRules;
  /** The journal of an earlier process, to resume from. */
  readonly resume: JournalState | undefined;
  /** Set if the record cache is used: by this run if it can be, and by the next one. */
  readonly recognition: StreamCacheOptions | undefined;
  /** Whether to compare even an unpartitioned list with its total. */
  readonly checkTotal: boolean;
}

/** Prepares the folder of a stream. Resumes from the journal if everything that it names is still there. */
export async function beginExtraction(options: ExtractionOptions): Promise<{
  readonly resume: JournalState | undefined;
  readonly recognition: StreamCache | undefined;
}> {
  const { folder, source, database } = options;
  const goesOn = options.resume && (await StreamCache.resume(folder, options.resume, options.recognition));
  const resume = goesOn === undefined ? undefined : options.resume;
  if (await preparePartsFolder(folder, resume, source.key, database))
    return { resume, recognition: goesOn === 'off' ? undefined : goesOn };
  if (goesOn !== 'off') await goesOn?.close();
  const recognition = options.recognition && (await StreamCache.begin(folder, options.recognition));
  return { resume: undefined, recognition };
}

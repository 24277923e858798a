import type { AtOnce } from '../client/at-once.js';
import type { ServiceClient } from '../client/client.js';
import type { Clock } from '../core/clock.js';
import type { ColumnRules } from '../rows/column-rules.js';
import type { StoredColumn } from '../rows/columns.js';
import type { Database } from '../store/duckdb.js';
import type { JournalState } from '../store/journal.js';
import type { ParquetCompression } from '../store/parquet.js';
import type { Source, Window } from '../streams/source.js';
import type { PartMaker } from './convert/part-maker.js';
import { preparePartsFolder } from './extracted.js';
import type { ListSplit } from './partition.js';
import { type RecognitionOptions, StreamRecognition } from './recognise/stream-recognition.js';
import type { KnownRecords } from './record-details.js';

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
  /** For such a list whose pages leave out details: what the last snapshot has of it. */
  readonly known: KnownRecords;
  readonly notice: (line: string) => void;
  /** For such a list: the spans that earlier runs have covered. */
  readonly covered: readonly Window[];
  readonly pageSize: number;
  /** How many chains, and how many requests for single records, run at once. */
  readonly atOnce: AtOnce;
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  readonly database: Database;
  readonly converter: PartMaker;
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
  /** Given if records are to be recognised, now if possible and by the next night. */
  readonly recognition: RecognitionOptions | undefined;
  /** Whether to compare even an unpartitioned list with its total. */
  readonly checkTotal: boolean;
}

/** Prepares the folder of a stream. Resumes from the journal if everything that it names is still there. */
export async function beginExtraction(given: ExtractionOptions): Promise<{
  readonly resume: JournalState | undefined;
  readonly recognition: StreamRecognition | undefined;
}> {
  const { folder, source, database } = given;
  const goesOn = given.resume && (await StreamRecognition.resume(folder, given.resume, given.recognition));
  const resume = goesOn === undefined ? undefined : given.resume;
  if (await preparePartsFolder(folder, resume, source.key, database))
    return { resume, recognition: goesOn === 'off' ? undefined : goesOn };
  if (goesOn !== 'off') await goesOn?.close();
  const recognition = given.recognition && (await StreamRecognition.begin(folder, given.recognition));
  return { resume: undefined, recognition };
}

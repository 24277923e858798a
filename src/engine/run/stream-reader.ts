import type { Pass, ReportedWarning } from '../../core/run-report.js';
import type { ReadingSplit } from '../../extract/partition.js';
import type { LiveCounters, ReadResult } from '../../extract/read-result.js';
import type { RecordHashTable } from '../../record-cache/hash-table.js';
import type { NextCache } from '../../record-cache/stream-cache.js';
import type { StreamCommit } from '../../snapshot/commit.js';
import type { CoveredSpan } from '../../snapshot/stream-state.js';
import type { ListSource } from '../../sources/source.js';
import type { Counters } from '../../storage/journal.js';

/** A list that changes while it is read: its absent keys are only candidates for deletes. */
export interface Confirmable {
  /** The request for one record; undefined if the service has none. */
  readonly one: ListSource['one'] | undefined;
  /** Reads the whole list once more; records that the first reading missed are added. @returns the pass, without the added records */
  readAgain(): Promise<Pass>;
  /** Adds a record that was requested by its key. @returns false if it no longer matches the stream's filter */
  addSingle(key: string, body: Buffer): Promise<boolean>;
}

/** Reads a stream, from the service or from a query. */
export interface StreamReader {
  readonly live: LiveCounters;
  /** Records by the service's own total, if it was asked for; null or undefined if it is not known. */
  readonly total?: number | null;
  /** Whether it resumes a reading of an earlier process. */
  readonly resumed: boolean;
  readonly key: readonly string[];
  /** `everything`: an absent key is a deleted record. `additions`: it was only not requested. */
  readonly coverage: 'everything' | 'additions';
  /** Spans of time that need no second reading once this is committed; undefined if the stream is not read by time. */
  readonly covered: readonly CoveredSpan[] | undefined;
  /** The reading of a query; undefined if the stream is not a query, or before it was read. */
  readonly reading?: StreamCommit['reading'];
  /** How a list is read in parts; undefined if it is read as one. */
  readonly split?: ReadingSplit | undefined;
  /** Undefined if absent keys are deletes without asking: of a query, a held reading, or a list proved by its total. */
  readonly confirmable: Confirmable | undefined;
  /** Describes the record cache for the next run; undefined if records are not hashed. */
  readonly nextCache?: NextCache | undefined;
  /** The hashes of the record cache. The comparison may change them. */
  readonly hashTable?: RecordHashTable | undefined;
  /** Why the record cache was not used, in words; undefined if it was, or if records are not hashed. */
  readonly cacheUnusedBecause?: string | undefined;
  /** Warnings about the reading. */
  readonly warnings?: readonly ReportedWarning[] | undefined;
  /** Passes over the list besides the first. */
  readonly passes?: readonly Pass[];
  counters(): Counters;
  /** The part of its counters that earlier processes counted; undefined if it resumes none. */
  readonly earlier?: Counters | undefined;
  read(): Promise<void>;
  /** Everything read so far, flushed to files. */
  extracted(): Promise<ReadResult>;
  close(): Promise<void>;
}

import type { Extracted } from '../../extract/extracted.js';
import type { LiveCounters } from '../../extract/live-counters.js';
import type { NextKnown } from '../../extract/recognise/stream-recognition.js';
import type { ReadingSplit } from '../../extract/stream-extraction.js';
import type { KnownSet } from '../../rows/known-set.js';
import type { Covered } from '../../snapshot/snapshot-store.js';
import type { Counters } from '../../store/journal.js';
import type { ListSource } from '../../streams/source.js';

/** A list that changes while it is read: its absent keys are only candidates for deletes. */
export interface Confirmable {
  /** The request for one record; undefined if the service has none. */
  readonly one: ListSource['one'] | undefined;
  /** Reads the whole list once more; records that the first reading missed are added. */
  readAgain(): Promise<void>;
  /** Adds a record that was asked for by its key. @returns false if it does not match the stream's filter any more */
  addSingle(key: string, body: Buffer): Promise<boolean>;
}

/** The reading of a stream, from the service or from a query. */
export interface Reading {
  readonly live: LiveCounters;
  /** Records by the service's own total, if it was asked for; null or undefined if it is not known. */
  readonly total?: number | null;
  /** Whether it resumes a reading of an earlier process. */
  readonly resumed: boolean;
  readonly key: readonly string[];
  /** `everything`: an absent key is a deleted record. `additions`: it was only not asked for. */
  readonly brings: 'everything' | 'additions';
  /** Spans of time that need no second reading once this is committed; undefined if the stream is not read by time. */
  readonly covered: readonly Covered[] | undefined;
  /** How a list is read in parts; undefined if it is read as one. */
  readonly split?: ReadingSplit | undefined;
  /** Undefined if absent keys are deletes without asking: of a query, a held reading, or a list proved by its total. */
  readonly confirmable: Confirmable | undefined;
  /** Given if records are hashed: what the next run needs to recognise them. */
  readonly nextKnown?: NextKnown | undefined;
  /** The hashes that it recognised records by. Once it is compared, they may be changed. */
  readonly knownSet?: KnownSet | undefined;
  /** Given if records are hashed, but none was recognised: why, in words. */
  readonly unrecognised?: string | undefined;
  counters(): Counters;
  read(): Promise<void>;
  /** Everything read so far, flushed to files. */
  extracted(): Promise<Extracted>;
  close(): Promise<void>;
}

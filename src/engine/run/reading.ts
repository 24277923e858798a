import type { Extracted } from '../../extract/extracted.js';
import type { LiveCounters } from '../../extract/live-counters.js';
import type { Covered } from '../../snapshot/snapshot-store.js';
import type { Counters } from '../../store/journal.js';
import type { ListSource } from '../../streams/source.js';

/** A list of which absent keys are only candidates for deletes, because it moves while it is read. */
export interface Confirmable {
  /** The request for one record; undefined where the service has none. */
  readonly one: ListSource['one'] | undefined;
  /** Reads the whole list once more; records that the first reading missed are added. */
  readAgain(): Promise<void>;
  /** Adds a record that was asked for by its key. @returns false where it does not match the stream's filter any more */
  addSingle(key: string, body: Buffer): Promise<boolean>;
}

/** How a stream's records come to be, from the service or from a query. */
export interface Reading {
  readonly live: LiveCounters;
  /** Whether it resumes what an earlier process has read. */
  readonly resumed: boolean;
  readonly key: readonly string[];
  /** Whether what is lacking is gone, or was only not asked for. */
  readonly brings: 'everything' | 'additions';
  /** What of time is read for good once this is committed; undefined where time does not matter. */
  readonly covered: readonly Covered[] | undefined;
  /** Undefined where absent keys are gone, or nobody can be asked: a query, a held reading, a list that was proved by its total. */
  readonly confirmable: Confirmable | undefined;
  counters(): Counters;
  read(): Promise<void>;
  /** Everything read so far, all of it in files. */
  extracted(): Promise<Extracted>;
  close(): Promise<void>;
}

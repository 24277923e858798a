import { z } from 'zod';
import { cursorSchema, type PartitionCursor } from '../storage/journal.js';
import type { PageBytes } from './page-fetcher.js';
import { partitionSchema } from './partition.js';

export const readTaskSchema = z.object({
  partition: partitionSchema,
  /** Number of the chain, different for each chain of the stream. */
  ordinal: z.number(),
  /** The filter, as pairs of attribute and text. The request sends it, and each record is checked against it. */
  filter: z.array(z.tuple([z.string(), z.string()])),
  /** How many records to ask for in a page. */
  pageSize: z.number(),
  /** Whether the endpoint may return tokens that lead nowhere: the first page without a new record then ends the chain. */
  distrustsTokens: z.boolean(),
  /** Where the chain begins or resumes. */
  start: cursorSchema,
});

/**
 * One chain of pages, from a cursor to its last page. A task is plain JSON: any process with the stream's source, a client
 * and a {@link PageSink} can read it.
 */
export type ReadTask = z.infer<typeof readTaskSchema>;

/** What the intake found on a page. */
interface PageOutcome {
  /** Number of records that are kept. */
  readonly records: number;
  /** Whether any of their keys is new to this attempt of the task. */
  readonly bringsNew: boolean;
}

/**
 * Takes the pages of a task. It is all that a task shares with the other tasks of its stream. The task does not know what
 * becomes of its pages, or when their checkpoint is written.
 */
export interface PageSink {
  /**
   * Takes in the next page. It waits while the conversion lags behind. `cursor` becomes durable later, together with the
   * page's records, and never before the cursors of earlier pages.
   * @throws {MalformedPageError} if the page must be fetched again; nothing of it was kept
   * @throws {CdsyncError} `filter_ignored` if records do not match the filter; nothing of the page was kept
   */
  take(page: PageBytes, cursor: PartitionCursor): Promise<PageOutcome>;
  /** Drops everything that earlier attempts brought; durable on return. */
  restart(attempt: number): Promise<void>;
}

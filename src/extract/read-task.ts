import { z } from 'zod';
import { cursorSchema, type PartitionCursor } from '../store/journal.js';
import type { FetchedPage } from './page-fetcher.js';
import { partitionSchema } from './partition.js';

export const readTaskSchema = z.object({
  partition: partitionSchema,
  /** Tells the chain from the stream's others. */
  ordinal: z.number(),
  /** Attribute and text: what the list is narrowed by, and what each record is held against. */
  filter: z.array(z.tuple([z.string(), z.string()])),
  /** Records that are asked for in a page. */
  pageSize: z.number(),
  /** The endpoint may give tokens that lead nowhere: the first page that brings nothing new ends the chain. */
  distrustsTokens: z.boolean(),
  /** Where the chain goes on. */
  start: cursorSchema,
});

/**
 * One chain of pages, from a cursor to its last page. It is all JSON: with the stream's source, a client and a
 * {@link TaskIntake} it can be read anywhere.
 */
export type ReadTask = z.infer<typeof readTaskSchema>;

/** What was found on a page. */
export interface TakenPage {
  /** Records that are kept. */
  readonly records: number;
  /** Whether a key of them is new to this attempt of the task. */
  readonly bringsNew: boolean;
  /** Records that carry an attribute of the filter with another value. */
  readonly mismatches: number;
  readonly mismatchedAttribute: string | null;
}

/**
 * Where a task hands its pages to, and all that it shares with the other tasks of its stream. What becomes of the pages,
 * and when their checkpoint is written, is not the task's business.
 */
export interface TaskIntake {
  /**
   * Takes in the next page; waits while conversion lags behind. `cursor` becomes durable together with the page's records,
   * some time later, and never before those of earlier pages.
   * @throws {MalformedPageError} where the page is to be fetched again; nothing of it was kept then
   */
  take(page: FetchedPage, cursor: PartitionCursor): Promise<TakenPage>;
  /** What earlier attempts have brought no longer counts; durable on return. */
  restart(attempt: number): Promise<void>;
}

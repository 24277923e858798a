import type { RequestCounts } from '../api/client.js';
import type { ResponseBody } from '../api/response-body.js';
import type { ErrorCode } from '../core/error-codes.js';
import { CdsyncError } from '../core/errors.js';
import { formatCount, formatCounted } from '../core/quantities.js';
import { z } from '../core/zod.js';
import { cursorSchema, type PartitionCursor } from '../storage/journal.js';
import { CycleDetector, maxRestarts, mayBeDeadToken, type PageBytes, type PageFetcher } from './page-fetcher.js';
import { partitionSchema } from './partition.js';
import { cutPageExactly, MalformedPageError } from './scan/page-cutter.js';

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

/**
 * Takes the pages of a task. It is all that a task shares with the other tasks of its stream. The task does not know what
 * becomes of its pages, or when their checkpoint is written.
 */
export interface PageSink {
  /**
   * Takes in the next page. It waits while the conversion lags behind. `cursor` becomes durable later, together with the
   * page's records, and never before the cursors of earlier pages.
   * @returns how many records are kept, and whether any of their keys is new to this attempt of the task
   * @throws {MalformedPageError} if the page must be fetched again; nothing of it was kept
   * @throws {CdsyncError} `filter_ignored` if records do not match the filter; nothing of the page was kept
   */
  take(page: PageBytes, cursor: PartitionCursor): Promise<{ records: number; hasNew: boolean }>;
  /** Drops everything that earlier attempts returned; durable on return. */
  restart(attempt: number): Promise<void>;
}

/** This many pages in a row with records but without a new key count as a circle. */
const maxPagesWithoutNewKey = 100;
/** This many pages in a row without a record count as a list without an end, although each has a new token. */
const maxEmptyPages = 1000;
/** How often a page with malformed records is fetched again. */
const maxRefetches = 3;

interface ChainContext {
  readonly fetcher: PageFetcher;
  readonly sink: PageSink;
  readonly meter: RequestCounts;
}

/**
 * Reads one task from its cursor to its last page. It asks for each page as soon as its token is known, while the
 * sink still takes the previous page.
 */
export class PageChain {
  readonly #context: ChainContext;
  readonly #task: ReadTask;
  #guard = new CycleDetector();
  #attempt: number;
  #pages: number;
  #pagesWithoutNewKey = 0;
  /** Journaled with each cursor: a list without an end must also end if every run reads only some of its pages. */
  #empty: number;
  /** Bodies of pages that were fetched, and are not yet in the sink. */
  readonly #held = new Set<ResponseBody>();
  #isOver = false;

  constructor(task: ReadTask, context: ChainContext) {
    this.#context = context;
    this.#task = task;
    this.#attempt = task.start.attempt;
    this.#pages = task.start.pages;
    this.#empty = task.start.empty_pages ?? 0;
  }

  /** @throws {CdsyncError} `page_loop`, `dead_token`, `filter_ignored`, and the errors of the client */
  async read(): Promise<void> {
    try {
      await this.#readAll();
    } finally {
      this.#isOver = true;
      for (const response of this.#held) response.dispose();
    }
  }

  async #readAll(): Promise<void> {
    let token = this.#task.start.token;
    let pending = this.#fetch(token);
    for (;;) {
      let page: PageBytes;
      try {
        page = await pending;
      } catch (error) {
        // The token of a chunk of keys is cdsync's own; the service refused a key.
        if (token === null || this.#task.partition.kind === 'keys' || !mayBeDeadToken(error)) throw error;
        page = await this.#startAgain(error);
        token = null;
      }
      const next = page.nextToken;
      if (next !== null) {
        this.#assertNoLoop(next);
        pending = this.#fetch(next);
        // The next round awaits it and meets its failure. Until then it must not count as unhandled.
        pending.catch(() => undefined);
      }
      try {
        await this.#receive(page);
      } catch (error) {
        if (!(error instanceof MalformedPageError)) throw error;
        // It must not take the memory that this page needs once more.
        await pending.then((other) => this.#dispose(other)).catch(() => undefined);
        page = await this.#takeInAgain(token, page, error);
        if (page.nextToken !== null && page.nextToken !== next) pending = this.#fetch(page.nextToken);
      }
      if (page.nextToken === null) return;
      token = page.nextToken;
    }
  }

  async #fetch(token: string | null): Promise<PageBytes> {
    const page = await this.#context.fetcher.fetch(token);
    if (this.#isOver) page.response?.dispose();
    else if (page.response !== undefined) this.#held.add(page.response);
    return page;
  }

  /** If the service refuses a token but not the list itself, the token is dead. The partition then starts again. */
  async #startAgain(refusal: unknown): Promise<PageBytes> {
    const page = await this.#fetch(null).catch((again: unknown) => {
      // An interruption or an outage says nothing about the token.
      throw mayBeDeadToken(again) ? refusal : again;
    });
    if (this.#attempt > maxRestarts) {
      const reached = `the last after ${formatCounted(this.#pages, 'page')}`;
      throw this.#failure('dead_token', `the service refused page tokens in ${maxRestarts + 1} attempts, ${reached}`, {
        cause: refusal,
        hint: 'its tokens expire too early: ask for larger pages (`page_size`) or smaller partitions (`partition_by`)',
      });
    }
    this.#attempt += 1;
    this.#pages = 0;
    this.#pagesWithoutNewKey = 0;
    this.#empty = 0;
    this.#guard = new CycleDetector();
    await this.#context.sink.restart(this.#attempt);
    return page;
  }

  #assertNoLoop(token: string): void {
    if (!this.#guard.repeats(token)) return;
    throw this.#failure(
      'page_loop',
      `the service returned the same page token twice, after ${formatCounted(this.#pages + 1, 'page')}`,
      {
        hint: 'its paging runs in a circle; report it to the service, with the request id of any page of this list',
      },
    );
  }

  /** @throws {MalformedPageError} then the page is still held */
  async #receive(page: PageBytes): Promise<void> {
    await this.#write(page);
    this.#dispose(page, 'reuse');
  }

  #dispose({ response }: PageBytes, reuse?: 'reuse'): void {
    if (response === undefined) return;
    response.dispose(reuse);
    this.#held.delete(response);
  }

  /** Hands the page to the sink, and ends the chain if the sink found a fault. */
  async #write(page: PageBytes): Promise<void> {
    const taken = await this.#context.sink.take(page, {
      token: page.nextToken,
      issued_at: page.issuedAt,
      pages: this.#pages + 1,
      attempt: this.#attempt,
      done: page.nextToken === null,
      ...(this.#empty > 0 ? { empty_pages: this.#empty } : {}),
      ...(this.#task.start.partition_keys === undefined ? {} : { partition_keys: this.#task.start.partition_keys }),
    });
    this.#pages += 1;
    if (taken.records === 0) return this.#assertEnds();
    this.#empty = 0;
    this.#pagesWithoutNewKey = taken.hasNew ? 0 : this.#pagesWithoutNewKey + 1;
    if (this.#pagesWithoutNewKey < (this.#task.distrustsTokens ? 1 : maxPagesWithoutNewKey)) return;
    throw this.#failure(
      'page_loop',
      `${this.#pagesWithoutNewKey === 1 ? 'a page' : `${this.#pagesWithoutNewKey} pages in a row`} brought no new record`,
      {
        hint: 'the service repeats its pages; report it to the service',
      },
    );
  }

  #assertEnds(): void {
    this.#empty += 1;
    if (this.#empty < maxEmptyPages) return;
    throw this.#failure('page_loop', `${formatCount(this.#empty)} pages in a row came without a record`, {
      hint: 'each page had a token for another one; report it to the service, with the request id of any page of this list',
    });
  }

  /** Takes in a malformed page again. If the quick cut was wrong, cuts the page exactly; otherwise fetches it again. */
  async #takeInAgain(token: string | null, first: PageBytes, error: MalformedPageError): Promise<PageBytes> {
    let [page, failure] = [first, error];
    for (let refetches = 0; ; refetches += 1) {
      const exact = cutAgain(page, failure);
      if (exact instanceof MalformedPageError) failure = exact;
      else {
        const found = await this.#malformedIn(exact);
        if (found === undefined) return exact;
        failure = found;
      }
      this.#dispose(page);
      if (refetches === maxRefetches) throw failure;
      this.#context.meter.retries += 1;
      page = await this.#fetch(token);
      const found = await this.#malformedIn(page);
      if (found === undefined) return page;
      failure = found;
    }
  }

  /** Takes a page in. Returns why it is malformed, if it is. */
  async #malformedIn(page: PageBytes): Promise<MalformedPageError | undefined> {
    try {
      await this.#receive(page);
      return undefined;
    } catch (error) {
      if (error instanceof MalformedPageError) return error;
      throw error;
    }
  }

  #failure(code: ErrorCode, message: string, details: { hint: string; cause?: unknown }): CdsyncError {
    return new CdsyncError(message, { code, ...details });
  }
}

/** Cuts the page by its whole envelope; otherwise returns the reason why it is malformed. */
function cutAgain(page: PageBytes, failure: MalformedPageError): PageBytes | MalformedPageError {
  // Its records only: they were cut out of the envelope, exactly.
  if (page.start === 0 && page.end === page.body.length) return failure;
  try {
    const cut = cutPageExactly(page.body);
    return cut.end === page.end && cut.start === page.start ? failure : { ...page, ...cut };
  } catch (error) {
    // The envelope says more than the records, whose end it was cut at.
    return error instanceof MalformedPageError ? error : failure;
  }
}

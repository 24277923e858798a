import type { RequestMeter } from '../client/client.js';
import { CdsyncError } from '../core/errors.js';
import { type FetchedPage, isRefusal, type PageFetcher } from './page-fetcher.js';
import type { ReadTask, TakenPage, TaskIntake } from './read-task.js';
import { cutPageExactly, MalformedPageError } from './scan/page-cutter.js';
import { TokenGuard } from './token-guard.js';

/** A dead token makes a partition start again this often at most. */
const maxRestarts = 2;
/** Pages in a row that have records and bring no new key: more than this many are a circle. */
const maxPagesWithoutNewKey = 100;
/** A page whose records are no JSON is fetched again this often. */
const maxRefetches = 3;

export interface ChainContext {
  readonly fetcher: PageFetcher;
  readonly intake: TaskIntake;
  readonly meter: RequestMeter;
}

/**
 * Reads one task from its cursor to its last page. It asks for each page as soon as its token is known, while the page
 * before it is still being taken in.
 */
export class PageChain {
  readonly #context: ChainContext;
  readonly #task: ReadTask;
  #guard = new TokenGuard();
  #attempt: number;
  #pages: number;
  #fruitless = 0;

  constructor(task: ReadTask, context: ChainContext) {
    this.#context = context;
    this.#task = task;
    this.#attempt = task.start.attempt;
    this.#pages = task.start.pages;
  }

  /** @throws {CdsyncError} `page_loop`, `dead_token`, `filter_ignored`, and whatever the client throws */
  async read(): Promise<void> {
    let token = this.#task.start.token;
    let pending = this.#fetch(token);
    for (;;) {
      let page: FetchedPage;
      try {
        page = await pending;
      } catch (error) {
        if (token === null || !isRefusal(error)) throw error;
        page = await this.#startAgain(error);
        token = null;
      }
      const next = page.nextToken;
      if (next !== null) {
        this.#refuseCircle(next);
        pending = this.#fetch(next);
        // Its failure is met when its turn comes; until then it must not count as unhandled.
        pending.catch(() => undefined);
      }
      try {
        await this.#takeIn(page);
      } catch (error) {
        if (!(error instanceof MalformedPageError)) throw error;
        await pending.catch(() => undefined);
        page = await this.#takeInAgain(token, page, error);
        if (page.nextToken !== null && page.nextToken !== next) pending = this.#fetch(page.nextToken);
      }
      if (page.nextToken === null) return;
      token = page.nextToken;
    }
  }

  #fetch(token: string | null): Promise<FetchedPage> {
    return this.#context.fetcher.fetch(token);
  }

  /** A token that is refused where the list itself is not, is dead: the partition is read from its start once more. */
  async #startAgain(refusal: unknown): Promise<FetchedPage> {
    const page = await this.#fetch(null).catch(() => undefined);
    if (page === undefined) throw refusal;
    if (this.#attempt > maxRestarts) {
      throw this.#failure('dead_token', `the service refused a page token, ${maxRestarts + 1} times over`, {
        cause: refusal,
        hint: 'its tokens do not live long enough: ask for larger pages (`page_size`) or smaller partitions (`partition_by`)',
      });
    }
    this.#attempt += 1;
    this.#pages = 0;
    this.#fruitless = 0;
    this.#guard = new TokenGuard();
    await this.#context.intake.restart(this.#attempt);
    return page;
  }

  #refuseCircle(token: string): void {
    if (!this.#guard.repeats(token)) return;
    throw this.#failure(
      'page_loop',
      `the service gave a page token for the second time, after ${this.#pages + 1} pages`,
      {
        hint: 'its paging runs in a circle; report it to the service, with the request id of any page of this list',
      },
    );
  }

  async #takeIn(page: FetchedPage): Promise<void> {
    const taken = await this.#context.intake.take(page, {
      token: page.nextToken,
      issued_at: page.issuedAt,
      pages: this.#pages + 1,
      attempt: this.#attempt,
      done: page.nextToken === null,
    });
    this.#pages += 1;
    if (taken.mismatches > 0) throw this.#filterIgnored(taken);
    if (taken.records === 0) return;
    this.#fruitless = taken.bringsNew ? 0 : this.#fruitless + 1;
    if (this.#fruitless < (this.#task.distrustsTokens ? 1 : maxPagesWithoutNewKey)) return;
    throw this.#failure(
      'page_loop',
      `${this.#fruitless === 1 ? 'a page' : `${this.#fruitless} pages in a row`} brought no new record`,
      {
        hint: 'the service repeats itself; report it to the service',
      },
    );
  }

  /** The page may have been cut wrongly, then it is cut once more; or the service has garbled it, then it is fetched again. */
  async #takeInAgain(token: string | null, first: FetchedPage, error: MalformedPageError): Promise<FetchedPage> {
    let failure = error;
    const exact = cutAgain(first);
    if (exact !== undefined) {
      await this.#takeIn(exact);
      return exact;
    }
    for (let refetch = 1; refetch <= maxRefetches; refetch += 1) {
      this.#context.meter.retries += 1;
      const page = await this.#fetch(token);
      try {
        await this.#takeIn(page);
        return page;
      } catch (again) {
        if (!(again instanceof MalformedPageError)) throw again;
        failure = again;
      }
    }
    throw failure;
  }

  #filterIgnored({ mismatches, mismatchedAttribute }: TakenPage): CdsyncError {
    return this.#failure(
      'filter_ignored',
      `${mismatches} records of one page do not match the filter on "${mismatchedAttribute}"`,
      {
        hint: 'the service seems to ignore the filter: check that the index has this attribute available for filtering',
      },
    );
  }

  #failure(code: string, message: string, details: { hint: string; cause?: unknown }): CdsyncError {
    return new CdsyncError(message, { code, ...details });
  }
}

/** The page cut by reading its whole envelope, if that gives another extent. */
function cutAgain(page: FetchedPage): FetchedPage | undefined {
  try {
    const cut = cutPageExactly(page.body);
    return cut.end === page.end && cut.start === page.start ? undefined : { ...page, ...cut };
  } catch {
    // The body is no page at all: it has to be fetched again.
    return undefined;
  }
}

import type { Release } from '../client/answer-collector.js';
import {
  type AnswerHead,
  MalformedBodyError,
  type RequestMeter,
  type ServiceClient,
  ServiceError,
} from '../client/client.js';
import type { Operation } from '../client/operation.js';
import type { Clock } from '../core/clock.js';
import { withFields } from './scan/added-fields.js';
import { cutPage, cutPageExactly, MalformedPageError, type PageCut } from './scan/page-cutter.js';

/** If the service refuses a first page, or a page is larger than the memory allows, its size is halved, but never below this. */
const minPageSize = 25;

/** A page as it came, with its records not yet scanned. */
export interface FetchedPage extends PageCut {
  readonly body: Buffer;
  /** When the service issued the token: ISO 8601, by the clock of cdsync. */
  readonly issuedAt: string;
  /** Number of records that were requested by key but do not exist. */
  readonly missing: number;
  /**
   * Call it when the page is taken in, or of no use: until then its body counts against the memory for bodies. The body's memory
   * may be reused only when all of its records are copied.
   */
  readonly release: Release;
}

const comma = Buffer.from(',');

/** A page made of single records, or of lists of them without brackets; empty ones do not count. */
export function pageOf(records: readonly Buffer[], page: Omit<FetchedPage, 'body' | 'start' | 'end'>): FetchedPage {
  const some = records.filter(({ length }) => length > 0);
  const body = Buffer.concat(some.flatMap((each, index) => (index === 0 ? [each] : [comma, each])));
  return { ...page, body, start: 0, end: body.length };
}

/** What a page has that is all there is, and whose body is not that of an answer. */
export const onlyPage = { nextToken: null, total: null, missing: 0, release: () => undefined } as const;

/** Gets the pages of one partition. */
export interface PageFetcher {
  /** @param token null for the first page */
  fetch(token: string | null): Promise<FetchedPage>;
}

export interface FetchContext {
  readonly client: ServiceClient;
  readonly meter: RequestMeter;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** How many records to ask for in a page; it shrinks if the service refuses it, or if such a page is too large. */
  readonly pageSize: { limit: number };
}

/** Cuts a body inside the decoder of a request, so that the client retries if the body is malformed. */
export function cutOrRetry(body: Buffer, cut: (body: Buffer) => PageCut): PageCut & { body: Buffer } {
  try {
    return { ...cut(body), body };
  } catch (error) {
    throw error instanceof MalformedPageError ? new MalformedBodyError(error.message, error) : error;
  }
}

/** Decodes the total of a page. */
export function readTotal(body: Buffer): number | null {
  return cutOrRetry(body, cutPageExactly).total;
}

function isTooLarge(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'response_too_large';
}

export function isRefusal(error: unknown): boolean {
  return error instanceof ServiceError && error.status === 400;
}

export interface ListRequest {
  readonly token: string | null;
  readonly limit: number;
}

/** Gets the pages of a list. */
export class ListFetcher implements PageFetcher {
  readonly #context: FetchContext;
  readonly #operation: (request: ListRequest) => Operation;
  readonly #takesLimit: boolean;
  readonly #cut: (body: Buffer, head: AnswerHead) => PageCut & Pick<FetchedPage, 'body' | 'release'>;

  constructor(
    context: FetchContext,
    operation: (request: ListRequest) => Operation,
    { added, takesLimit }: { added: Readonly<Record<string, string>>; takesLimit: boolean },
  ) {
    this.#context = context;
    this.#operation = operation;
    this.#takesLimit = takesLimit;
    const fields = Object.entries(added);
    this.#cut =
      fields.length === 0
        ? (body, { keep }) => ({ ...cutOrRetry(body, cutPage), release: keep() })
        : (body, { keep }) => {
            const page = cutOrRetry(body, cutPageExactly);
            const records = withFields(body, page.start, page.end, fields);
            return { ...page, body: records, start: 0, end: records.length, release: keep() };
          };
  }

  async fetch(token: string | null): Promise<FetchedPage> {
    const { client, meter, signal, pageSize, clock } = this.#context;
    for (;;) {
      const { limit } = pageSize;
      try {
        const page = await client.send(this.#operation({ token, limit }), this.#cut, { signal, meter });
        return { ...page, issuedAt: new Date(clock.now()).toISOString(), missing: 0 };
      } catch (error) {
        const isTooMuch = isTooLarge(error) || (token === null && isRefusal(error));
        if (!isTooMuch || !this.#takesLimit || pageSize.limit <= minPageSize) throw error;
        if (pageSize.limit === limit) pageSize.limit = Math.max(minPageSize, limit >> 1);
      }
    }
  }
}

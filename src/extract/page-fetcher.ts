import {
  MalformedBodyError,
  RequestAttempts,
  type RequestCounts,
  type SendOptions,
  type ServiceClient,
  ServiceError,
} from '../api/client.js';
import type { Operation } from '../api/request.js';
import type { ResponseBody } from '../api/response-body.js';
import type { Clock } from '../core/clock.js';
import type { ListSource } from '../sources/source.js';
import { jsonBytes } from './scan/bytes.js';
import { skipSpace, skipValue } from './scan/json-bytes.js';
import { cutPage, cutPageExactly, MalformedPageError, type PageCut } from './scan/page-cutter.js';

const { closeBrace, comma, openBrace } = jsonBytes;

/** If the service refuses a first page, or a page is larger than the memory allows, its size is halved, but never below this. */
const minPageSize = 25;

/** A key without a record. */
export interface RefusedKey {
  /** Null if it must not be shown. */
  readonly key: string | null;
  /** Of the reject that it becomes. */
  readonly reason: 'id_not_in_url' | 'id_refused';
}

/** A page as received, with its records not yet scanned. */
export interface PageBytes extends PageCut {
  readonly body: Buffer;
  /** When the service issued the token: ISO 8601, by the clock of cdsync. */
  readonly issuedAt: string;
  /** Number of records that were requested by key but do not exist. */
  readonly missing: number;
  /** Keys without a record, because no request can be made for them or because the service refuses them. */
  readonly refusedKeys?: readonly RefusedKey[];
  /** The response whose memory the page takes, if it has one. The owner of the page must dispose of it. */
  readonly response?: ResponseBody | undefined;
}

const separator = Buffer.from(',');

/** A page made of single records, or of lists of them without brackets; empty ones do not count. */
export function pageOf(records: readonly Buffer[], page: Omit<PageBytes, 'body' | 'start' | 'end'>): PageBytes {
  const some = records.filter(({ length }) => length > 0);
  const body = Buffer.concat(some.flatMap((chunk, index) => (index === 0 ? [chunk] : [separator, chunk])));
  return { ...page, body, start: 0, end: body.length };
}

/** The rest of a page that is the only one, and whose body is not that of a response. */
export const onlyPage = { nextToken: null, total: null, missing: 0 } as const;

/** Gets the pages of one partition. */
export interface PageFetcher {
  /** @param token null for the first page */
  fetch(token: string | null): Promise<PageBytes>;
}

export interface FetchContext {
  readonly client: ServiceClient;
  readonly meter: RequestCounts;
  readonly signal: AbortSignal;
  readonly clock: Clock;
  /** How many records to ask for in a page; it shrinks if the service refuses it, or if such a page is too large. */
  readonly pageSize: PageSize;
}

/** The page size of a stream. */
interface PageSize {
  limit: number;
  /** Up to this size a 404 is not meant for the size: the service accepted it, or also answered the smallest page with 404. */
  accepted?: number;
}

/** Cuts a body inside the decoder of a request, so that the client retries if the body is malformed. */
export function cutOrRetry(body: Buffer, cut: (body: Buffer) => PageCut): PageCut & { body: Buffer } {
  try {
    return { ...cut(body), body };
  } catch (error) {
    throw error instanceof MalformedPageError ? new MalformedBodyError(error.message, error) : error;
  }
}

function isTooLarge(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'response_too_large';
}

export function isRefusal(error: unknown): boolean {
  return statusOf(error) === 400;
}

/** How often reading may start again because of a dead token. */
export const maxRestarts = 2;
/** Statuses with which services refuse a page token that has died. Whether it has, the same request without it shows. */
const tokenRefusals = new Set([400, 404, 409, 410, 413, 422]);
const sizeRefusals = new Set([400, 404, 413, 414, 416, 422]);
/** Statuses of a service that fails over too large a page. An outage has them too. */
const sizeFailures = new Set([500, 504]);

export function mayBeDeadToken(error: unknown): boolean {
  return tokenRefusals.has(statusOf(error));
}

function statusOf(error: unknown): number {
  return error instanceof ServiceError ? (error.status ?? 0) : 0;
}

function isSizeRefusal(error: unknown, limit: number, { accepted = 0 }: PageSize): boolean {
  const status = statusOf(error);
  return sizeRefusals.has(status) && !(status === 404 && limit <= accepted);
}

export function saysVersion(error: unknown): boolean {
  return error instanceof ServiceError && /version/i.test(error.serviceMessage ?? '');
}

interface PageSizing<T> extends Pick<FetchContext, 'pageSize'> {
  readonly takesLimit: boolean;
  readonly isFirst: boolean;
  readonly send: (limit: number, options: Pick<SendOptions, 'ownFailures' | 'attempts'>) => Promise<T>;
  /** Called with a page that is of no use. */
  readonly drop?: (page: T) => void;
  /** Whether a page takes more memory to convert than there is: fewer records are requested in its place. */
  readonly isLarge?: (page: T) => boolean;
}

/**
 * Asks for a page, with smaller and smaller sizes while that may help. A refusal of a first page may be meant for its size or for
 * something else: its version, its filter, an outage. Only the smallest page shows which, so it is requested next; after an outage, the
 * size is tried once more.
 */
export async function requestWithSmallerPages<T>({
  pageSize,
  takesLimit,
  isFirst,
  send,
  drop,
  isLarge,
}: PageSizing<T>): Promise<T> {
  let isProven = false;
  for (;;) {
    const { limit } = pageSize;
    const mayShrink = takesLimit && limit > minPageSize;
    const attempts = new RequestAttempts();
    // Other partitions may prove the size before this request ends.
    const ownFailures = isFirst && mayShrink && limit > (pageSize.accepted ?? 0) ? sizeFailures : undefined;
    try {
      const page = await send(limit, { ownFailures, attempts });
      pageSize.accepted = Math.max(limit, pageSize.accepted ?? 0);
      if (!mayShrink || isLarge?.(page) !== true) return page;
      drop?.(page);
    } catch (error) {
      const isFailed = ownFailures?.has(statusOf(error)) === true;
      const isRefused = isFailed || (isFirst && isSizeRefusal(error, limit, pageSize) && !saysVersion(error));
      if (!(isRefused || isTooLarge(error)) || !mayShrink) throw error;
      if (isRefused && !isProven) {
        const smallest = send(minPageSize, { attempts }).catch((again) => {
          if (again instanceof ServiceError && again.status === 404) pageSize.accepted = Number.POSITIVE_INFINITY;
          throw isSizeRefusal(again, minPageSize, pageSize) ? error : again;
        });
        const page = await smallest;
        drop?.(page);
        isProven = true;
        if (isFailed) continue;
      }
    }
    // Other partitions may have halved it.
    if (pageSize.limit === limit) pageSize.limit = Math.max(minPageSize, limit >> 1);
  }
}

/**
 * Adds fields to the records between `start` and `end`, which are separated by commas. The new fields come first in each
 * record. A value that is not an object stays as it is.
 * @throws {MalformedBodyError} if the records are not valid JSON
 */
export function withFields(body: Buffer, start: number, end: number, added: Readonly<Record<string, string>>): Buffer {
  const fields = Object.entries(added);
  if (fields.length === 0) return body.subarray(start, end);
  const text = fields.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(',');
  const [whole, alone] = [Buffer.from(`${text},`), Buffer.from(text)];
  const pieces: Buffer[] = [];
  let copied = start;
  let at = skipSpace(body, start);
  while (at < end) {
    const { end: behind } = skipValue(body, at);
    if (behind < 0 || behind > end) throw new MalformedBodyError('its records are not valid JSON');
    if (body[at] === openBrace) {
      const inside = at + 1;
      pieces.push(body.subarray(copied, inside), body[skipSpace(body, inside)] === closeBrace ? alone : whole);
      copied = inside;
    }
    at = skipSpace(body, behind);
    if (body[at] === comma) at = skipSpace(body, at + 1);
  }
  pieces.push(body.subarray(copied, end));
  return Buffer.concat(pieces);
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
  readonly #cut: (body: Buffer) => PageCut & Pick<PageBytes, 'body'>;

  constructor(
    context: FetchContext,
    operation: (request: ListRequest) => Operation,
    { added, takesLimit }: { added: Readonly<Record<string, string>>; takesLimit: boolean },
  ) {
    this.#context = context;
    this.#operation = operation;
    this.#takesLimit = takesLimit;
    this.#cut =
      Object.keys(added).length === 0
        ? (body) => cutOrRetry(body, cutPage)
        : (body) => {
            const page = cutOrRetry(body, cutPageExactly);
            // Not every service has buckets of each scale: its own figure is true of the records, the requested one may not be.
            const { scale = added.scale } = page;
            const fields = scale === undefined || added.scale === undefined ? added : { ...added, scale };
            const records = withFields(body, page.start, page.end, fields);
            return { ...page, body: records, start: 0, end: records.length };
          };
  }

  async fetch(token: string | null): Promise<PageBytes> {
    const { client, meter, signal, pageSize, clock } = this.#context;
    const page = await requestWithSmallerPages({
      pageSize,
      takesLimit: this.#takesLimit,
      isFirst: token === null,
      send: (limit, options) =>
        client.sendPage(this.#operation({ token, limit }), this.#cut, { signal, meter, ...options }),
      drop: ({ response }) => response.dispose(),
      isLarge: ({ body }) => body.length > client.maxPageBytes,
    });
    return { ...page, issuedAt: new Date(clock.now()).toISOString(), missing: 0 };
  }
}

/**
 * Notices that a chain of page tokens runs in a circle, in constant memory: Brent's algorithm ("An improved Monte Carlo
 * factorization algorithm", BIT 20, 1980) keeps one earlier token, and replaces it at powers of two.
 */
export class CycleDetector {
  #kept: string | null = null;
  #last: string | null = null;
  #steps = 0;
  #power = 1;

  /** Takes the next token of the chain. Returns true if the chain runs in a circle. */
  repeats(token: string): boolean {
    if (token === this.#kept || token === this.#last) return true;
    this.#last = token;
    this.#steps += 1;
    if (this.#steps === this.#power) {
      this.#kept = token;
      this.#power *= 2;
      this.#steps = 0;
    }
    return false;
  }
}

/** The response to a request without parameters. The caller owns its page, whole or not. */
interface SinglePage {
  /** Without its page token. */
  readonly page: PageBytes;
  /** Whether it is the whole list: as many records as its total, or neither a total nor a token. */
  readonly isWhole: boolean;
}

/** Asks for a list without any parameter, as {@link ListSource.plain} does. */
export async function fetchSinglePage(
  { client, signal, meter, clock }: FetchContext,
  { plain, added }: Pick<ListSource, 'plain' | 'added'>,
): Promise<SinglePage> {
  if (plain === undefined) throw new TypeError('this list takes parameters');
  const cut = (body: Buffer) => cutOrRetry(body, cutPageExactly);
  const { body, start, end, nextToken, total, response } = await client.sendPage(plain(), cut, { signal, meter });
  const records = withFields(body, start, end, added);
  const issuedAt = new Date(clock.now()).toISOString();
  const page = { body: records, start: 0, end: records.length, nextToken: null, total, issuedAt, missing: 0, response };
  const count = countRecords(body, start, end);
  // A token may lead nowhere, but not if there are more records than the total says: then it is the total that is wrong.
  const isWhole = total === null ? nextToken === null : count === total || (count > total && nextToken === null);
  return { page, isWhole };
}

/** Gives this response first. If it must be fetched again, that response too must be the whole list. */
export function singlePageFetcher(first: SinglePage, again: () => Promise<SinglePage>): PageFetcher {
  let isUsed = false;
  return {
    fetch: async () => {
      if (!isUsed) {
        isUsed = true;
        return first.page;
      }
      const { page, isWhole } = await again();
      if (isWhole) return page;
      page.response?.dispose();
      throw new MalformedPageError('the whole list, as before');
    },
  };
}

export function countRecords(body: Buffer, start: number, end: number): number {
  let count = 0;
  let at = skipSpace(body, start);
  while (at < end) {
    const { end: behind } = skipValue(body, at);
    if (behind < 0 || behind > end) return count;
    count += 1;
    at = skipSpace(body, behind);
    if (body[at] === comma) at = skipSpace(body, at + 1);
  }
  return count;
}

import type pLimit from 'p-limit';
import { MalformedBodyError, ServiceError } from '../api/client.js';
import { CdsyncError } from '../core/errors.js';
import { formatCount, formatCounted } from '../core/quantities.js';
import type { KeyedRequest } from '../sources/source.js';
import {
  CycleDetector,
  countRecords,
  cutOrRetry,
  type FetchContext,
  maxRestarts,
  mayBeDeadToken,
  onlyPage,
  type PageBytes,
  type PageFetcher,
  pageOf,
  type RefusedKey,
  requestWithSmallerPages,
  saysVersion,
  withFields,
} from './page-fetcher.js';
import { copyTrimmed, strictText } from './scan/json-bytes.js';
import { cutPageExactly } from './scan/page-cutter.js';

/** More pages than the records of one key can have. */
const maxPages = 1000;
/** Once records of this size have come, the page ends. Most chunks of keys are one page. */
const maxPageBytes = 8_000_000;

/** Statuses that may be about one id: one that is too long, or has characters that the service does not take. */
const keyRefusals = new Set([400, 410, 413, 414, 422, 431]);

/** What became of a key: its records, or why there are none. */
type Asked = readonly Buffer[] | 'missing' | (RefusedKey & { readonly error: CdsyncError });

/** What all fetchers of a stream know about refused keys: a service that refuses every key means the request, not the key. */
export class KeyRefusals {
  /** Whether the service has answered for any key. */
  isAnswered = false;
  /** The keys that the service has refused, null for those that must not be shown, and the status of the last. */
  readonly keys: (string | null)[] = [];
  lastStatus: number | undefined;
}

interface KeyedResponse {
  /** Records, separated by commas. */
  readonly records: Buffer;
  readonly nextToken: string | null;
  /** How many records these are, and how many the key has by the service's count; null if it did not count. */
  readonly count: number;
  readonly total: number | null;
}

/** Fetches records one by one, and returns them as pages. A token is the place of a page's first request among all of them. */
export class KeyedFetcher implements PageFetcher {
  readonly #context: FetchContext;
  readonly #requests: readonly KeyedRequest[];
  readonly #mayMiss: boolean;
  readonly #limit: ReturnType<typeof pLimit>;
  readonly #refusals: KeyRefusals;

  /** @param limit how many requests may be under way at once, over all fetchers of a stream */
  constructor(
    context: FetchContext,
    requests: readonly KeyedRequest[],
    options: { mayMiss: boolean; limit: ReturnType<typeof pLimit>; refusals?: KeyRefusals },
  ) {
    this.#context = context;
    this.#requests = requests;
    this.#mayMiss = options.mayMiss;
    this.#limit = options.limit;
    this.#refusals = options.refusals ?? new KeyRefusals();
  }

  async fetch(token: string | null): Promise<PageBytes> {
    const stop = new AbortController();
    const signal = AbortSignal.any([this.#context.signal, stop.signal]);
    let next = Number(token ?? 0);
    let bytes = 0;
    const ask = async (request: KeyedRequest): Promise<Asked> => {
      if (bytes >= maxPageBytes) return [];
      // Requests begin in their order.
      next += 1;
      const records = await this.#ask(request, signal);
      if (Array.isArray(records)) for (const { length } of records) bytes += length;
      return records;
    };
    const asked = this.#requests.slice(next).map((request) => this.#limit(() => ask(request)));
    let results: Asked[];
    try {
      results = await Promise.all(asked);
    } catch (error) {
      // The other requests are of no use now. The first error is the one to report.
      stop.abort();
      await Promise.allSettled(asked);
      throw error;
    }
    const issuedAt = new Date(this.#context.clock.now()).toISOString();
    const records = results.flatMap((result) => (Array.isArray(result) ? result : []));
    const refusedKeys = this.#refused(results);
    return pageOf(records, {
      ...onlyPage,
      nextToken: next < this.#requests.length ? String(next) : null,
      issuedAt,
      missing: results.filter((result) => result === 'missing').length,
      refusedKeys,
    });
  }

  async #ask(request: KeyedRequest, signal: AbortSignal): Promise<Asked> {
    try {
      for (let attempt = 1; ; attempt += 1) {
        const pages = await this.#pages(request, signal).catch((error: unknown) => {
          if (error instanceof DeadToken || (error instanceof CdsyncError && error.code === 'total_mismatch'))
            return error;
          throw error;
        });
        if (!(pages instanceof DeadToken || pages instanceof CdsyncError)) return pages;
        if (attempt > maxRestarts) throw pages instanceof CdsyncError ? pages : deadToken(pages.cause);
      }
    } catch (error) {
      if (this.#mayMiss && error instanceof ServiceError && error.status === 404) return 'missing';
      const { key = null } = request;
      if (key !== null && error instanceof CdsyncError && error.code === 'invalid_id')
        return { key, reason: 'id_not_in_url', error };
      if (error instanceof ServiceError && keyRefusals.has(error.status ?? 0) && !saysVersion(error))
        return { key, reason: 'id_refused', error };
      throw error;
    }
  }

  /** The keys without a record. @throws {ServiceError} if the service has refused all so far, and more than one */
  #refused(results: readonly Asked[]): RefusedKey[] {
    const refused = results.flatMap((result) => (typeof result === 'object' && 'error' in result ? [result] : []));
    const byService = refused.filter(({ reason }) => reason === 'id_refused');
    this.#refusals.isAnswered ||= refused.length < results.length;
    const [first] = byService;
    if (byService.length > 1 && !this.#refusals.isAnswered) throw first?.error;
    for (const { key, error } of byService) {
      this.#refusals.keys.push(key);
      this.#refusals.lastStatus = (error as ServiceError).status;
    }
    return refused.map(({ key, reason }) => ({ key, reason }));
  }

  /**
   * Asks for all pages of a key.
   * @throws {DeadToken} if the service refuses a page token
   * @throws {CdsyncError} `total_mismatch` if the key has more records by its total
   */
  async #pages(request: KeyedRequest, signal: AbortSignal): Promise<Buffer[]> {
    const { client, meter, pageSize } = this.#context;
    const isPage = request.returns === 'page';
    const decode = (body: Buffer) => (isPage ? readPage(body, request) : readRecord(body, request));
    const guard = new CycleDetector();
    const pages: Buffer[] = [];
    let [count, wanted] = [0, 0];
    let token: string | null = null;
    do {
      const asked: string | null = token;
      const response: KeyedResponse = await requestWithSmallerPages({
        pageSize,
        takesLimit: isPage,
        isFirst: asked === null,
        send: (limit, options) =>
          client.send(request.operation({ token: asked, limit }), decode, { signal, meter, ...options }),
      }).catch((error) => Promise.reject(asked !== null && mayBeDeadToken(error) ? new DeadToken(error) : error));
      pages.push(response.records);
      count += response.count;
      wanted = response.total ?? 0;
      token = response.nextToken;
      if (token !== null && (guard.repeats(token) || pages.length === maxPages)) throw endless(pages.length);
    } while (token !== null);
    if (count < wanted) throw tooFew(count, wanted);
    return pages;
  }
}

/** The service refused a page token, so the pages of the key must be read from the first one on. */
class DeadToken extends Error {
  constructor(cause: unknown) {
    super('a page token was refused', { cause });
  }
}

function deadToken(cause: unknown): CdsyncError {
  return new CdsyncError(`the service refused page tokens of one key in ${maxRestarts + 1} attempts`, {
    code: 'dead_token',
    hint: 'its tokens expire too early: ask for larger pages (`page_size`)',
    cause,
  });
}

function readPage(body: Buffer, { added }: KeyedRequest): KeyedResponse {
  const { start, end, nextToken, total } = cutOrRetry(body, cutPageExactly);
  return { records: withFields(body, start, end, added), nextToken, count: countRecords(body, start, end), total };
}

function readRecord(body: Buffer, { added, expected }: KeyedRequest): KeyedResponse {
  const bytes = copyTrimmed(body);
  const record: unknown = JSON.parse(strictText(bytes));
  const isObject = typeof record === 'object' && record !== null && !Array.isArray(record);
  if (!isObject) throw new MalformedBodyError('it is not an object');
  for (const [field, value] of Object.entries(expected ?? {})) {
    if ((record as Record<string, unknown>)[field] === value) continue;
    throw new MalformedBodyError(`its ${field} is not the requested one`);
  }
  return { records: withFields(bytes, 0, bytes.length, added), nextToken: null, count: 1, total: null };
}

function tooFew(count: number, wanted: number): CdsyncError {
  return new CdsyncError(
    `one id has ${formatCounted(wanted, 'record')} by the service's own total, but only ${formatCount(count)} came, in ${maxRestarts + 1} readings`,
    {
      code: 'total_mismatch',
      hint: 'the service withholds records; run again, and report it to the service if it happens again',
    },
  );
}

function endless(pages: number): CdsyncError {
  return new CdsyncError(`the pages of one key do not end: ${formatCount(pages)} came, and a token for another one`, {
    code: 'page_loop',
    hint: 'the paging of the service runs in a circle, or without an end: report it to the service',
  });
}

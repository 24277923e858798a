import pLimit from 'p-limit';
import { MalformedBodyError, ServiceError } from '../api/client.js';
import { isAskable } from '../api/request.js';
import type { WindowedSource } from '../sources/source.js';
import { type FetchContext, onlyPage, type PageBytes, type PageFetcher, pageOf } from './page-fetcher.js';
import { jsonBytes } from './scan/bytes.js';
import { type ExactValue, parseExact, writeExact } from './scan/exact-json.js';
import { copyTrimmed, maxDepth, skipSpace, skipValue, strictText } from './scan/json-bytes.js';

/** If the first responses, this many, return nothing that pages lack, the service has no details to give. */
const maxFruitlessResponses = 3;

/** The last snapshot's records of a list whose pages leave out details. */
export interface StoredRecords {
  /** Keys that a page need not return: the snapshot has all of them, or they are read by id. */
  readonly skipped: ReadonlySet<string>;
  /** Keys of records that have ended, and that the snapshot has without their details. */
  readonly undetailed: ReadonlySet<string>;
}

interface DetailsOptions {
  readonly source: WindowedSource;
  readonly known: StoredRecords;
  /** How many requests for single records may be under way at once, over all tasks of a stream. */
  readonly limit: ReturnType<typeof pLimit>;
  readonly notice: (line: string) => void;
}

/**
 * Asks for the details of records: the fields that pages leave out ({@link WindowedSource.details}). One for all tasks of a
 * stream. If the service refuses, the list's own fields are kept, and one notice reports it.
 */
export class RecordDetails {
  readonly #options: DetailsOptions;
  readonly #overview: ReadonlySet<string>;
  /** Until one response has returned more, requests go one after the other: most of them may be useless. */
  readonly #firstOnes = pLimit(1);
  #fruitless = 0;
  #isFruitful = false;
  #isNoticed = false;

  constructor(options: DetailsOptions) {
    this.#options = options;
    this.#overview = new Set(options.source.details?.overview);
  }

  /** A page with the details of its records, without the skipped ones. */
  async complete(page: PageBytes, context: FetchContext): Promise<PageBytes> {
    const records = recordsOf(page).filter(({ id }) => id === undefined || !this.#options.known.skipped.has(id));
    const completed = await Promise.all(
      records.map(async ({ id, bytes }) => {
        const details = id === undefined ? undefined : await this.#ask(id, context);
        return details === undefined ? bytes : withOverview(details, bytes);
      }),
    );
    return pageOf(completed, page);
  }

  /** One record by its key, with its details if the service gives them; else as the list would show it. */
  async single(key: string, context: FetchContext): Promise<PageBytes> {
    const { source, known } = this.#options;
    const issuedAt = new Date(context.clock.now()).toISOString();
    const empty = { ...onlyPage, issuedAt };
    const details = await this.#ask(key, context);
    if (details !== undefined) return pageOf([details], empty);
    // The snapshot has all that an overview would say of a record that has ended.
    if (known.undetailed.has(key) || source.one === undefined) return pageOf([], empty);
    const operation = source.one(key);
    try {
      return pageOf([await this.#send(operation, key, context)], empty);
    } catch (error) {
      if (error instanceof ServiceError && error.status === 404) return pageOf([], { ...empty, missing: 1 });
      throw error;
    }
  }

  /** Undefined if the service refuses, or has shown that it has no details, or if no request can be made for the key. */
  async #ask(key: string, context: FetchContext): Promise<Buffer | undefined> {
    if (!isAskable(key)) return undefined;
    const tried = await this.#firstOnes(async () => (this.#isFruitful ? 'not asked' : this.#try(key, context)));
    return tried === 'not asked' ? this.#options.limit(() => this.#try(key, context)) : tried;
  }

  async #try(key: string, context: FetchContext): Promise<Buffer | undefined> {
    const { details } = this.#options.source;
    if (details === undefined || (!this.#isFruitful && this.#fruitless >= maxFruitlessResponses)) return undefined;
    try {
      const body = await this.#send(details.one(key), key, context);
      this.#count(body);
      return body;
    } catch (error) {
      if (!(error instanceof ServiceError) || (error.status !== 400 && error.status !== 404)) throw error;
      this.#fruitless += 1;
      this.#notice(error);
      return undefined;
    }
  }

  #send(operation: ReturnType<NonNullable<WindowedSource['one']>>, key: string, context: FetchContext) {
    const { client, meter, signal } = context;
    const decode = (body: Buffer) => {
      const record = copyTrimmed(body);
      if (idOf(record) !== key) throw new MalformedBodyError('it is not the record that was asked for');
      return record;
    };
    return client.send(operation, decode, { signal, meter });
  }

  #count(body: Buffer): void {
    const fields = Object.entries(objectOf(body) ?? {});
    if (fields.some(([name, value]) => value !== null && !this.#overview.has(name))) this.#isFruitful = true;
    else this.#fruitless += 1;
  }

  #notice(error: ServiceError): void {
    if (this.#isNoticed) return;
    this.#isNoticed = true;
    this.#options.notice(`${error.message}: of such records, what their list says is kept`);
  }
}

/** Gets the pages of a window, each record with its details. */
export class DetailedFetcher implements PageFetcher {
  readonly #context: FetchContext;
  readonly #pages: PageFetcher;
  readonly #details: RecordDetails;

  constructor(context: FetchContext, pages: PageFetcher, details: RecordDetails) {
    this.#context = context;
    this.#pages = pages;
    this.#details = details;
  }

  async fetch(token: string | null): Promise<PageBytes> {
    const page = await this.#pages.fetch(token);
    try {
      return await this.#details.complete(page, this.#context);
    } catch (error) {
      page.response?.dispose();
      throw error;
    }
  }
}

function objectOf(bytes: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(strictText(bytes));
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function idOf(bytes: Buffer): string | undefined {
  const id = objectOf(bytes)?.id;
  return typeof id === 'string' && id.isWellFormed() ? id : undefined;
}

/** The records of a page, each with its id if it has one. Text that is not JSON ends the list: the scanner will refuse it. */
function recordsOf({ body, start, end }: PageBytes): { id: string | undefined; bytes: Buffer }[] {
  const records: { id: string | undefined; bytes: Buffer }[] = [];
  let at = skipSpace(body, start);
  while (at < end) {
    const { end: behind } = skipValue(body, at);
    const stop = behind < 0 || behind > end ? end : behind;
    const bytes = body.subarray(at, stop);
    records.push({ id: idOf(bytes), bytes });
    at = skipSpace(body, stop);
    if (body[at] === jsonBytes.comma) at = skipSpace(body, at + 1);
  }
  return records;
}

/** The members of a record, with numbers as they were written; undefined if it is not an object, or not valid JSON. */
function membersOf(bytes: Buffer): ReadonlyMap<string, ExactValue> | undefined {
  const { end, depth } = skipValue(bytes, skipSpace(bytes, 0));
  if (end < 0 || depth > maxDepth) return undefined;
  const value = parseExact(strictText(bytes));
  return value instanceof Map ? value : undefined;
}

/** The details, and before them the fields that only the overview has: an absent field replaces none. */
function withOverview(details: Buffer, overview: Buffer): Buffer {
  const members = membersOf(details) ?? new Map();
  const missing = [...(membersOf(overview) ?? [])].filter(([name]) => !members.has(name));
  if (missing.length === 0) return details;
  const fields = writeExact(new Map(missing)).slice(0, -1);
  const rest = details.subarray(details.indexOf('{') + 1);
  return Buffer.concat([Buffer.from(members.size === 0 ? fields : `${fields},`), rest]);
}

import { CdsyncError } from '../core/errors.js';
import type { Window, WindowedSource } from '../sources/source.js';
import {
  cutOrRetry,
  type FetchContext,
  isRefusal,
  ListFetcher,
  type ListRequest,
  onlyPage,
  type PageBytes,
  type PageFetcher,
  pageOf,
  withFields,
} from './page-fetcher.js';
import { copyTrimmed } from './scan/json-bytes.js';
import { cutPageExactly } from './scan/page-cutter.js';

/** The response for a window this short counts as complete, whatever else it has. */
const minMs = 1_000;
/** After this many halvings of one window the list counts as incomplete. */
const maxHalvings = 500;

/** How much later than {@link WindowedSource.certainMs} ago a refused window begins when it is asked for again: clocks differ. */
const margins = [60_000, 3_600_000];

/** The service's smallest default for the size of a page (published notes, Profile API). No response is cut off before. */
const smallestPage = 25;

interface WindowResponse {
  /** Records, separated by commas. */
  readonly records: Buffer;
  readonly keys: ReadonlySet<string>;
  /** Whether it has a page token. It is not for use, but the response may not be the whole window. */
  readonly hasToken: boolean;
}

/**
 * Fetches a window whose one response is all of it (specification, section 4.11), as one page. No page token is ever sent. If
 * one arrives, both halves of the window are asked for as well; if they return records that the whole left out, they replace it,
 * and each of them is proved in the same way.
 */
class WholeWindowFetcher implements PageFetcher {
  readonly #context: FetchContext;
  readonly #source: WindowedSource;
  readonly #window: Window;
  #halvings = 0;

  constructor(context: FetchContext, source: WindowedSource, window: Window) {
    this.#context = context;
    this.#source = source;
    this.#window = window;
  }

  async fetch(): Promise<PageBytes> {
    const parts = await this.#read(this.#window);
    const issuedAt = new Date(this.#context.clock.now()).toISOString();
    const records = parts.map((part) => part.records);
    return pageOf(records, { ...onlyPage, issuedAt });
  }

  /** Asks for a window; if the service refuses one that begins too long ago, for its recent part. */
  async #read(window: Window, [margin, ...others] = margins): Promise<WindowResponse[]> {
    try {
      return await this.#proved(window, await this.#ask(window));
    } catch (error) {
      const { client, clock } = this.#context;
      const oldest = clock.now() - (client.aheadMs ?? 0) - (this.#source.certainMs ?? Number.POSITIVE_INFINITY);
      const from = oldest + (margin ?? Number.NEGATIVE_INFINITY);
      if (!isRefusal(error) || from <= Date.parse(window.from)) throw error;
      if (from >= Date.parse(window.to)) return [];
      return this.#read({ from: new Date(from).toISOString(), to: window.to }, others);
    }
  }

  /** The responses that together are the whole window. */
  async #proved(window: Window, response: WindowResponse): Promise<WindowResponse[]> {
    const halves = response.hasToken ? halvesOf(window) : [];
    const asked = await Promise.all(halves.map((half) => this.#ask(half)));
    if (provesWhole(response, asked)) return [response];
    this.#halvings += 1;
    if (this.#halvings > maxHalvings) throw this.#endless();
    const parts: WindowResponse[] = [];
    for (const [index, half] of halves.entries())
      parts.push(...(await this.#proved(half, asked[index] as WindowResponse)));
    const received = new Set(parts.flatMap(({ keys }) => [...keys]));
    return lacksNone(received, [response]) ? parts : [response, ...parts];
  }

  #endless(): CdsyncError {
    const { from, to } = this.#window;
    return new CdsyncError(`parts of the window from ${from} to ${to} keep bringing records that its answer left out`, {
      code: 'page_loop',
      hint: 'the service leaves records out of its responses, and more of them the oftener it is asked; report it to the service',
    });
  }

  #ask(window: Window): Promise<WindowResponse> {
    const { client, meter, signal } = this.#context;
    const { key, added } = this.#source;
    const decode = (body: Buffer): WindowResponse => {
      const { start, end, nextToken } = cutOrRetry(body, cutPageExactly);
      const records = copyTrimmed(withFields(body, start, end, added));
      return { records, keys: keysOf(records, key), hasToken: nextToken !== null };
    };
    return client.send(windowRequest(this.#source, window, firstPage), decode, { signal, meter });
  }
}

const firstPage: ListRequest = { token: null, limit: 0 };

function windowRequest(source: WindowedSource, window: Window, request: ListRequest) {
  return source.page({ ...request, filter: new Map(), withTotal: false, window });
}

/** Returns the fetcher for a window: page by page, or its one response. */
export function windowFetcher(context: FetchContext, source: WindowedSource, window: Window): PageFetcher {
  if (!source.takesLimit) return new WholeWindowFetcher(context, source, window);
  const page = (request: ListRequest) => windowRequest(source, window, request);
  return new ListFetcher(context, page, { added: source.added, takesLimit: true });
}

function halvesOf({ from, to }: Window): Window[] {
  const [first, last] = [Date.parse(from), Date.parse(to)];
  if (last - first <= minMs) return [];
  const middle = new Date(Math.floor((first + last) / 2)).toISOString();
  return [
    { from, to: middle },
    { from: middle, to },
  ];
}

/**
 * Whether the responses for its halves prove a response whole: they return nothing new. But if all of many records are in one half,
 * both responses may have been cut off in the same place.
 */
function provesWhole({ keys }: WindowResponse, halves: readonly WindowResponse[]): boolean {
  const isSuspect = keys.size >= smallestPage && halves.some((half) => half.keys.size === 0);
  return !isSuspect && lacksNone(keys, halves);
}

/** Whether none of these responses has a record that is not known. */
function lacksNone(knownNames: ReadonlySet<string>, responses: readonly WindowResponse[]): boolean {
  return responses.every(({ keys }) => [...keys].every((key) => knownNames.has(key)));
}

/** @throws {SyntaxError} if the records are not JSON: then the client asks again */
function keysOf(records: Buffer, key: readonly string[]): Set<string> {
  const parsed = JSON.parse(`[${records.toString('utf8')}]`) as (Record<string, unknown> | null)[];
  return new Set(parsed.map((record) => JSON.stringify(key.map((column) => record?.[column]))));
}

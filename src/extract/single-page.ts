import type { ResponseHead } from '../api/client.js';
import type { ListSource } from '../sources/source.js';
import { cutOrRetry, type FetchContext, type PageBytes, type PageFetcher } from './page-fetcher.js';
import { withFields } from './scan/added-fields.js';
import { jsonBytes } from './scan/bytes.js';
import { skipSpace, skipValue } from './scan/json-bytes.js';
import { cutPageExactly } from './scan/page-cutter.js';

/** An answer to a request without parameters. Release its page, whole or not. */
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
  const cut = (body: Buffer, { keep }: ResponseHead) => ({ ...cutOrRetry(body, cutPageExactly), release: keep() });
  const { body, start, end, nextToken, total, release } = await client.send(plain(), cut, { signal, meter });
  const fields = Object.entries(added);
  const records = fields.length === 0 ? body.subarray(start, end) : withFields(body, start, end, fields);
  const issuedAt = new Date(clock.now()).toISOString();
  const page = { body: records, start: 0, end: records.length, nextToken: null, total, issuedAt, missing: 0, release };
  return { page, isWhole: total === null ? nextToken === null : countRecords(body, start, end) >= total };
}

/** Gives this answer first, and asks again if it is asked again. */
export class SinglePageFetcher implements PageFetcher {
  readonly #again: () => Promise<SinglePage>;
  #first: SinglePage | undefined;

  constructor(first: SinglePage, again: () => Promise<SinglePage>) {
    this.#first = first;
    this.#again = again;
  }

  async fetch(): Promise<PageBytes> {
    const { page } = this.#first ?? (await this.#again());
    this.#first = undefined;
    return page;
  }
}

function countRecords(body: Buffer, start: number, end: number): number {
  let count = 0;
  let at = skipSpace(body, start);
  while (at < end) {
    const { end: behind } = skipValue(body, at);
    if (behind < 0 || behind > end) return count;
    count += 1;
    at = skipSpace(body, behind);
    if (body[at] === jsonBytes.comma) at = skipSpace(body, at + 1);
  }
  return count;
}

import type { RequestCounts, ServiceClient } from '../api/client.js';
import type { Page } from '../api/paging.js';
import { type Index, indexesPageOperation, readIndexes } from '../api/profile-api.js';
import type { Operation } from '../api/request.js';
import { CdsyncError } from '../core/errors.js';

/** What a request to the service needs. */
export interface ServiceAsk {
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly meter: RequestCounts;
}

const pageLimit = 100;
/** More pages than any tenant's lists have. */
const mostPages = 1000;

/**
 * Reads a short list of the service to its end.
 * @throws {CdsyncError} `page_loop` if its tokens repeat or never end; what the client throws
 */
export async function readWholeList<T>(
  { client, signal, meter }: ServiceAsk,
  operation: (page: { readonly nextToken: string | null; readonly limit: number }) => Operation,
  decode: (body: Buffer) => Page<T>,
): Promise<T[]> {
  const items: T[] = [];
  const seen = new Set<string>();
  let nextToken: string | null = null;
  do {
    const asked = operation({ nextToken, limit: pageLimit });
    const page: Page<T> = await client.send(asked, decode, { signal, meter });
    items.push(...page.data);
    nextToken = page.nextToken;
    if (nextToken !== null && (seen.has(nextToken) || seen.size === mostPages)) {
      throw new CdsyncError(`${asked.label} leads from page to page without an end`, {
        code: 'page_loop',
        hint: 'the service repeats itself: tell its operator',
      });
    }
    if (nextToken !== null) seen.add(nextToken);
  } while (nextToken !== null);
  return items;
}

/** All indexes of the tenant that the API key may see (specification, section 4.2). @throws as {@link readWholeList} */
export function readAllIndexes(ask: ServiceAsk): Promise<Index[]> {
  return readWholeList(ask, indexesPageOperation, readIndexes);
}

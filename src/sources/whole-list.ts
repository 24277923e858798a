import type { RequestCounts, ServiceClient } from '../api/client.js';
import type { Page } from '../api/paging.js';
import { type Index, indexesPageOperation, readIndexes } from '../api/profile-api.js';
import type { Operation } from '../api/request.js';
import { ServiceError } from '../api/service-error.js';
import { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/suggestions.js';

/** The client and the signal of a request to the service. */
export interface ServiceAsk {
  readonly client: ServiceClient;
  readonly signal: AbortSignal;
  readonly meter: RequestCounts;
}

const pageLimit = 100;
/** More pages than any tenant's lists have. */
const maxPages = 1000;

/**
 * Reads a short list of the service to its end.
 * @throws {CdsyncError} `page_loop` if its tokens repeat or never end; errors of the client
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
    if (nextToken !== null && (seen.has(nextToken) || seen.size === maxPages)) {
      throw new CdsyncError(`${asked.label} leads from page to page without an end`, {
        code: 'page_loop',
        hint: 'the service repeats itself: report it to its operator',
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

/** Undefined if the API key may not list indexes; it may still be allowed to read one. */
async function visibleIndexes(ask: ServiceAsk): Promise<Index[] | undefined> {
  try {
    return await readAllIndexes(ask);
  } catch (error) {
    if (error instanceof ServiceError && error.status === 403) return undefined;
    throw error;
  }
}

/**
 * The id of the index that has this id or name.
 * @throws {CdsyncError} `index_not_found` with the nearest names, `index_ambiguous`, `page_loop`; errors of the client
 */
export async function resolveIndex(ask: ServiceAsk, idOrName: string): Promise<string> {
  const indexes = await visibleIndexes(ask);
  if (indexes === undefined || indexes.some(({ id }) => id === idOrName)) return idOrName;
  const named = indexes.filter(({ name }) => name === idOrName);
  const [only] = named;
  if (named.length === 1 && only !== undefined) return only.id;
  if (named.length > 1) {
    throw new CdsyncError(`${named.length} indexes are called "${idOrName}"`, {
      code: 'index_ambiguous',
      hint: `give the id instead: ${named.map(({ id }) => id).join(', ')}`,
    });
  }
  const near = nearest(
    idOrName,
    indexes.flatMap(({ id, name }) => (name === undefined ? [id] : [name, id])),
  );
  const all = indexes.slice(0, 10).map(({ id, name = id }) => `"${name}"`);
  throw new CdsyncError(`the tenant has no index "${idOrName}"`, {
    code: 'index_not_found',
    hint:
      all.length === 0
        ? 'it has no indexes at all: check `tenant_id`'
        : near.length === 0
          ? `it has ${all.join(', ')}${indexes.length > all.length ? ' and others: cdsync discover' : ''}`
          : `did you mean ${near.map((name) => `"${name}"`).join(' or ')}?`,
  });
}

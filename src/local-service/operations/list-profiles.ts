import type { Filters, IndexSource } from '../data/index-source.js';
import type { Query } from '../http/query.js';
import { badRequest } from '../http/service-error.js';
import { answerPage } from './answer-page.js';
import { namedIndex } from './get-index.js';
import { listingId } from './listing.js';
import type { Operation } from './operation.js';
import { profileApi } from './profile-api.js';

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Sorts the filters: a token belongs to a set of filters, whatever their order in the query. */
function parseFilters(query: Query, { filterable, resource }: IndexSource, ignored: boolean): Filters {
  const filters: (readonly [string, string])[] = [];
  for (const [name, value] of query) {
    if (name !== 'filter' && !name.startsWith('filter[')) continue;
    const attribute = /^filter\[(.+)\]$/s.exec(name)?.[1];
    if (attribute === undefined) throw badRequest(`${name} is not of the form filter[<attribute>]`);
    if (!ignored && !filterable.includes(attribute)) {
      throw badRequest(`attribute ${attribute} of index ${resource.name} is not available for filtering`);
    }
    filters.push([attribute, value]);
  }
  return filters.length < 2 ? filters : filters.sort((a, b) => compare(a[0], b[0]) || compare(a[1], b[1]));
}

/** GET /indexes/{id}/profiles (specification, section 4.4). */
export const listProfiles: Operation = {
  method: 'GET',
  path: '/api/indexes/{id}/profiles',
  guard: profileApi('index-profiles:read'),
  handle: (call, state) => {
    const source = namedIndex(call, state);
    const ignored = call.faults.some(({ kind }) => kind === 'ignore_filter');
    const filters = parseFilters(call.query, source, ignored);
    const list = source.list(ignored ? [] : filters);
    const listing = {
      id: listingId(`${source.resource.id} ${JSON.stringify(filters)}`),
      maxRecordBytes: source.maxRecordBytes,
      total: () => list.total(),
      select: (from: number, limit: number) => list.select(from, limit),
      write: (position: number, target: Uint8Array, offset: number) => source.write(position, target, offset),
    };
    return answerPage(call, listing, state);
  },
};

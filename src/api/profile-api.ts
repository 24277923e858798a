import { z } from '../core/zod.js';
import { type PageRequest, pageDecoder, paging } from './paging.js';
import { type Operation, pathSegment } from './request.js';

interface ProfilesPageRequest extends PageRequest {
  readonly indexId: string;
  /** Pairs of attribute and value; a profile must match all of them. */
  readonly filter?: Iterable<readonly [string, string]>;
}

const timestamps = { created_at: z.string().nullish(), updated_at: z.string().nullish() };
const index = z.looseObject({
  id: z.string(),
  name: z.string().optional(),
  description: z.string().nullish(),
  ...timestamps,
});

/** An index of the tenant; fields that are not specified are kept (specification, section 2.1). */
export type Index = z.infer<typeof index>;

/** One page of the tenant's indexes (specification, section 4.2); {@link readIndexes} decodes it. */
export function indexesPageOperation(request: PageRequest): Operation {
  return { group: 'profile', method: 'GET', path: '/indexes', query: paging(request), label: 'GET /indexes' };
}

/** One index (specification, section 4.3). @throws {CdsyncError} `invalid_id` */
export function getIndexOperation(id: string): Operation {
  const path = `/indexes/${pathSegment(id)}`;
  return { group: 'profile', method: 'GET', path, label: 'GET /indexes/{id}' };
}

/**
 * One page of the profiles of an index (specification, section 4.4).
 * @throws {CdsyncError} `invalid_id`
 */
export function profilesPageOperation({ indexId, filter, ...page }: ProfilesPageRequest): Operation {
  const query = filter === undefined ? paging(page) : [...filterParameters(filter), ...paging(page)];
  const path = `/indexes/${pathSegment(indexId)}/profiles`;
  return { group: 'profile', method: 'GET', path, query, label: 'GET /indexes/{id}/profiles' };
}

/** One profile of an index (specification, section 4.5). @throws {CdsyncError} `invalid_id` */
export function getProfileOperation(indexId: string, id: string): Operation {
  const path = `/indexes/${pathSegment(indexId)}/profiles/${pathSegment(id)}`;
  return { group: 'profile', method: 'GET', path, label: 'GET /indexes/{id}/profiles/{id}' };
}

/** A filter as the query parameters `filter[<attribute>]` (specification, section 4.4). */
export function filterParameters(filter: Iterable<readonly [string, string]>): (readonly [string, string])[] {
  return Array.from(filter, ([attribute, value]) => [`filter[${attribute}]`, value] as const);
}

/** Decodes {@link indexesPageOperation}. @throws {MalformedBodyError} */
export const readIndexes = pageDecoder<Index>(index);

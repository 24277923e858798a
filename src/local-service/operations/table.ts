import { type Filters, type IndexSource, recordBytes } from '../data/index-source.js';
import { faultOf } from '../faults/fault.js';
import type { Query } from '../http/query.js';
import { contentType, requestBody } from '../http/request-body.js';
import { badRequest, jsonResponse, notFound, unauthorized } from '../http/response.js';
import type { ServiceState } from '../service-state.js';
import { listingId, listingOf } from './listing.js';
import { managementOperations } from './management-operations.js';
import { type Call, type Operation, profileApi } from './operation.js';
import { pageResponse } from './page-response.js';
import { realtimeOperations } from './realtime-operations.js';

const maxBodyBytes = 64 * 1024;

async function exchange({ request }: Call, state: ServiceState) {
  if (contentType(request) !== 'application/x-www-form-urlencoded') {
    throw badRequest('the body must be application/x-www-form-urlencoded');
  }
  const form = new URLSearchParams(await requestBody(request, maxBodyBytes));
  if (form.get('grant_type') !== 'client_credentials') throw badRequest('grant_type must be client_credentials');
  const [id, secret] = [form.get('client_id'), form.get('client_secret')];
  if (!id || !secret) throw badRequest('client_id and client_secret are required');
  const tenant = request.headers[state.oauthTenantHeader];
  if (typeof tenant !== 'string' || tenant === '') throw badRequest('the tenant header is missing');
  if (!state.keys.hasTenant(tenant)) throw unauthorized('the client credentials are not valid for this tenant');
  const { token, expiresIn } = await state.tokens.exchange(id, secret, tenant);
  return jsonResponse({ access_token: token, expires_in: expiresIn, token_type: 'Bearer' });
}

/** POST /api/v0/oauth2/token (specification, section 4.9). */
export const oauthToken: Operation = { method: 'POST', path: '/api/v0/oauth2/token', handle: exchange };

/** The index that the path names. @throws {ServiceError} 404 */
function namedIndex({ tenant, parameters }: Call, state: ServiceState): IndexSource {
  const source = state.data(tenant).index(parameters[0] as string);
  if (source === undefined) throw notFound();
  return source;
}

/** GET /indexes/{id} (specification, section 4.3). */
const getIndex: Operation = {
  method: 'GET',
  path: '/api/indexes/{id}',
  guard: profileApi('indexes:read'),
  handle: (call, state) => jsonResponse(namedIndex(call, state).resource),
};

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
const listProfiles: Operation = {
  method: 'GET',
  path: '/api/indexes/{id}/profiles',
  guard: profileApi('index-profiles:read'),
  handle: (call, state) => {
    const source = namedIndex(call, state);
    const ignored = faultOf(call.faults, 'ignore_filter') !== undefined;
    const filters = parseFilters(call.query, source, ignored);
    const list = source.list(ignored ? [] : filters);
    const listing = {
      id: listingId(`${source.resource.id} ${JSON.stringify(filters)}`),
      maxRecordBytes: source.maxRecordBytes,
      total: () => list.total(),
      select: (from: number, limit: number) => list.select(from, limit),
      write: (position: number, target: Uint8Array, offset: number) => source.write(position, target, offset),
    };
    return pageResponse(call, listing, state);
  },
};

/** GET /indexes (specification, section 4.2). */
const listIndexes: Operation = {
  method: 'GET',
  path: '/api/indexes',
  guard: profileApi('indexes:read'),
  handle: (call, state) => {
    const resources = state.data(call.tenant).indexes.map(({ resource }) => resource);
    return pageResponse(call, listingOf('indexes', resources), state);
  },
};

/** GET /indexes/{id}/profiles/{id} (specification, section 4.5). */
const getProfile: Operation = {
  method: 'GET',
  path: '/api/indexes/{id}/profiles/{profile-id}',
  guard: profileApi('index-profiles:read'),
  handle: (call, state) => {
    const source = namedIndex(call, state);
    const position = source.find(call.parameters[1] as string);
    if (position < 0) throw notFound();
    return { status: 200, headers: {}, body: recordBytes(source, position) };
  },
};

/** Every operation of the published interface. */
export const operations: readonly Operation[] = [
  oauthToken,
  listIndexes,
  getIndex,
  listProfiles,
  getProfile,
  ...managementOperations,
  ...realtimeOperations,
];

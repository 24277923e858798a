import type { IncomingMessage } from 'node:http';
import { z } from '../../core/zod.js';
import { faultOf } from '../faults/fault.js';
import { flag } from '../http/query.js';
import { jsonObject } from '../http/request-body.js';
import { badRequest, jsonResponse, notFound, type ServiceResponse } from '../http/response.js';
import type { Collection } from '../realtime/collection.js';
import { isRecord } from '../realtime/event.js';
import { shownProfile } from '../realtime/shown-profile.js';
import type { ServiceState } from '../service-state.js';
import { type Call, type Operation, realtimeApi } from './operation.js';
import { namedCollection, profileForm, realtimeOf } from './realtime-api.js';

interface Lookup {
  readonly keys: readonly (readonly [name: string, value: string])[];
  readonly enrich: boolean;
}

const maxBodyBytes = 64 * 1024;
/** Query parameters that are not keys. */
const reserved = ['_enrich', 'api_version'];

const body = z.strictObject({
  // A zod record would lose names such as `__proto__`.
  keys: z.custom<Record<string, unknown>>(isRecord).default({}),
  enrich: z.boolean().default(false),
});

const isKey = (key: readonly [string, unknown]): key is readonly [string, string] => typeof key[1] === 'string';

async function bodyLookup({ request, faults }: Call): Promise<Lookup> {
  const read = body.safeParse(await jsonObject(request, maxBodyBytes, faults));
  const keys = Object.entries(read.data?.keys ?? {}).map(
    ([name, value]) => [name, typeof value === 'number' ? String(value) : value] as const,
  );
  // The message from zod could show the value of a key.
  if (!read.success || !keys.every(isKey))
    throw badRequest('the body must be {"keys": {name: text}, "enrich": true or false}');
  return { keys, enrich: read.data.enrich };
}

function queryLookup({ query }: Call): Lookup {
  return { keys: query.filter(([name]) => !reserved.includes(name)), enrich: flag(query, '_enrich') };
}

/** The service's base URL, with the host name that the client has used. */
function baseUrl({ headers, socket }: IncomingMessage): string {
  return headers.host === undefined ? '' : `${'encrypted' in socket ? 'https' : 'http'}://${headers.host}`;
}

/** Position of the profile that has all keys; -1 if there is none. */
function find(collection: Collection, keys: Lookup['keys']): number {
  const [first = -1, ...others] = keys.map(([name, value]) => collection.withKey(name, value));
  return others.some((other) => other !== first) ? -1 : first;
}

function lookUp(call: Call, state: ServiceState, { keys, enrich }: Lookup): ServiceResponse {
  const realtime = realtimeOf(call, state);
  if (keys.length === 0) throw badRequest('no keychain keys were provided');
  if (keys.length > 1 && faultOf(call.faults, 'lookup_one_key')) throw badRequest('exactly one key is allowed');
  const collection = namedCollection(realtime, call);
  const position = find(collection, keys);
  if (position < 0) {
    const echo = faultOf(call.faults, 'lookup_echo') === undefined ? '' : `: ${keys.flat().join(' ')}`;
    throw notFound(`no profile has these keys${echo}`);
  }
  const profile = shownProfile(collection, position, profileForm(call, state, enrich));
  const location = `${baseUrl(call.request)}/prof/profiles/${collection.id}/${profile.profile_id}`;
  return { ...jsonResponse(profile), headers: { location } };
}

const shared = {
  path: '/prof/lookup/{collection-id}/keychain',
  guard: realtimeApi('profile-collections:read', 'pii:read'),
};

/** POST /lookup/{collection-id}/keychain (specification, section 4.6). */
export const lookupByBody: Operation = {
  ...shared,
  method: 'POST',
  handle: async (call, state) => {
    realtimeOf(call, state);
    return lookUp(call, state, await bodyLookup(call));
  },
};

/** GET /lookup/{collection-id}/keychain (specification, section 4.7). */
export const lookupByQuery: Operation = {
  ...shared,
  method: 'GET',
  handle: (call, state) => {
    realtimeOf(call, state);
    return lookUp(call, state, queryLookup(call));
  },
};

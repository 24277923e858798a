import { recordBytes } from '../data/index-source.js';
import { notFound } from '../http/service-error.js';
import { namedIndex } from './get-index.js';
import type { Operation } from './operation.js';
import { profileApi } from './profile-api.js';

/** GET /indexes/{id}/profiles/{id} (specification, section 4.5). */
export const getProfile: Operation = {
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

import type { IndexSource } from '../data/index-source.js';
import { jsonAnswer } from '../http/answer.js';
import { notFound } from '../http/service-error.js';
import type { ServiceState } from '../service-state.js';
import type { Call, Operation } from './operation.js';
import { profileApi } from './profile-api.js';

/** The index that the path names. @throws {ServiceError} 404 */
export function namedIndex({ tenant, parameters }: Call, state: ServiceState): IndexSource {
  const source = state.data(tenant).index(parameters[0] as string);
  if (source === undefined) throw notFound();
  return source;
}

/** GET /indexes/{id} (specification, section 4.3). */
export const getIndex: Operation = {
  method: 'GET',
  path: '/api/indexes/{id}',
  guard: profileApi('indexes:read'),
  handle: (call, state) => jsonAnswer(namedIndex(call, state).resource),
};

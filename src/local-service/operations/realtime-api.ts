import { faultOf } from '../faults/fault.js';
import { notFound } from '../http/response.js';
import type { Collection } from '../realtime/collection.js';
import type { Segment } from '../realtime/segment.js';
import type { ProfileForm } from '../realtime/shown-profile.js';
import type { TenantRealtime } from '../realtime/tenant-realtime.js';
import type { ServiceState } from '../service-state.js';
import type { Call } from './operation.js';

/** How the response to a call shows a profile. */
export function profileForm({ faults }: Call, { attributes }: ServiceState, enrich: boolean): ProfileForm {
  return { enrich, attributes, shape: faultOf(faults, 'realtime_shape') };
}

/** The tenant's real-time features. @throws {ServiceError} 404 if they are not enabled */
export function realtimeOf({ tenant }: Call, state: ServiceState): TenantRealtime {
  const realtime = state.realtime.of(tenant);
  if (!realtime.enabled) throw notFound(`real-time features are not enabled for the tenant ${tenant}`);
  return realtime;
}

/** The collection whose id is first in the path. @throws {ServiceError} 404 */
export function namedCollection(realtime: TenantRealtime, { parameters }: Call): Collection {
  const collection = realtime.collection(parameters[0] as string);
  if (collection === undefined) throw notFound('there is no profile collection of this id');
  return collection;
}

/** The segment whose id is first in the path. @throws {ServiceError} 404 */
export function namedSegment(realtime: TenantRealtime, { parameters }: Call): Segment {
  const segment = realtime.segment(parameters[0] as string);
  if (segment === undefined) throw notFound('there is no real-time segment of this id');
  return segment;
}

/** Position of the profile whose id is second in the path. @throws {ServiceError} 404 */
export function namedProfile(collection: Collection, { parameters }: Call): number {
  const position = collection.find(parameters[1] as string);
  if (position < 0) throw notFound('there is no profile of this id in the collection');
  return position;
}

import type { IncomingMessage } from 'node:http';
import type { ApiGroup } from '../../core/service-options.js';
import type { Fault } from '../faults/fault.js';
import type { Query } from '../http/query.js';
import type { ServiceResponse } from '../http/response.js';
import type { ApiKey, Permission } from '../keys/api-key.js';
import type { ServiceState } from '../service-state.js';

/** A request as an operation gets it. */
export interface Call {
  readonly request: IncomingMessage;
  /** The value of each `{…}` in the path. */
  readonly parameters: readonly string[];
  readonly query: Query;
  /** From the tenant header; for a guarded operation, the token was issued for this tenant. */
  readonly tenant: string;
  /** The API key that the token was issued for; undefined if the operation needs no token. */
  readonly key: ApiKey | undefined;
  /** The faults that hit this request. */
  readonly faults: readonly Fault[];
}

/** The requirements that a request must meet before an operation handles it. */
export interface Guard {
  /** The group whose budget the request uses. */
  readonly group: ApiGroup;
  /** The versions that `api-version` may name besides `unstable`; empty if the operation needs no version. */
  readonly versions: readonly string[];
  readonly permissions: readonly Permission[];
  /** A permission that replaces all of them. */
  readonly instead?: Permission;
}

/** The guard of a Profile API operation (specification, sections 4.1, 8 and 9). */
export function profileApi(permission: Permission): Guard {
  return { group: 'profile', versions: ['2025-07-31'], permissions: [permission] };
}

/** The guard of a Management API operation (specification, sections 4.1, 4.11 and 9). */
export function managementApi(permission: Permission): Guard {
  return { group: 'management', versions: ['2024-04-01'], permissions: [permission] };
}

/** The guard of a Real-time API operation, which needs no version (specification, sections 4.1 and 9). */
export function realtimeApi(...permissions: readonly Permission[]): Guard {
  return { group: 'realtime', versions: [], permissions };
}

/** One operation of the service. */
export interface Operation {
  readonly method: string;
  /** The path with its prefix; parameters are written as `{name}`. */
  readonly path: string;
  /** Undefined only for the operation that issues tokens. */
  readonly guard?: Guard;
  /** Changes state that a restart must keep: true saves everything before the response, `events` only the events. */
  readonly lasting?: true | 'events';
  /** @throws {ServiceError} the error to respond with */
  handle(call: Call, state: ServiceState): ServiceResponse | Promise<ServiceResponse>;
}

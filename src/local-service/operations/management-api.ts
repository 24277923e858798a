import type { TenantManagement } from '../management/tenant-management.js';
import type { Permission } from '../permissions.js';
import type { ServiceState } from '../service-state.js';
import type { Call, Guard } from './operation.js';

/** The guard of a Management API operation (specification, sections 4.1, 4.11 and 9). */
export function managementApi(permission: Permission): Guard {
  return { group: 'management', versions: ['2024-04-01'], permissions: [permission] };
}

/** The Management API of the tenant that makes the call. */
export function managementOf({ tenant }: Call, state: ServiceState): TenantManagement {
  return state.management.of(tenant);
}

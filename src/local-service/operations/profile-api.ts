import type { Permission } from '../permissions.js';
import type { Guard } from './operation.js';

/** The guard of a Profile API operation (specification, sections 4.1, 8 and 9). */
export function profileApi(permission: Permission): Guard {
  return { group: 'profile', versions: ['2025-07-31'], permissions: [permission] };
}

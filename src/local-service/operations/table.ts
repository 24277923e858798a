import { getIndex } from './get-index.js';
import { getProfile } from './get-profile.js';
import { listIndexes } from './list-indexes.js';
import { listProfiles } from './list-profiles.js';
import { managementOperations } from './management-operations.js';
import { oauthToken } from './oauth-token.js';
import type { Operation } from './operation.js';
import { realtimeOperations } from './realtime-operations.js';

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

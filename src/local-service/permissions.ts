/**
 * What a policy of an API key can allow. `pii:read`, `profile-collections:read` and `real-time-segments:read` are the
 * specification's (section 5); the other names are not published, and ours.
 */
export const permissions = [
  'indexes:read',
  'index-profiles:read',
  'audit-events:read',
  'campaigns:read',
  'campaign-drafts:read',
  'ingest-jobs:read',
  'segments:read',
  'workflow-runs:read',
  'workflow-runs:write',
  'profile-collections:read',
  'profile-events:write',
  'real-time-segments:read',
  'pii:read',
] as const;

export type Permission = (typeof permissions)[number];

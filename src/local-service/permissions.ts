/**
 * The permissions that a policy can give an API key. The specification (section 5) names `pii:read`,
 * `profile-collections:read` and `real-time-segments:read`; the two for events are published, either is enough; the other
 * names are our own.
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
  'streaming-ingest-api:write',
  'real-time-segments:read',
  'pii:read',
] as const;

export type Permission = (typeof permissions)[number];

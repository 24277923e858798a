import { auditEvents } from './audit-events.js';
import { campaignDrafts, campaigns } from './campaigns.js';
import { collectionHistory } from './collection-history.js';
import { collectionStats } from './collection-stats.js';
import type { SourceDeclaration } from './declaration.js';
import { indexProfiles } from './index-profiles.js';
import { indexes } from './indexes.js';
import { ingestJobs } from './ingest-jobs.js';
import { profileSegments } from './profile-segments.js';
import { profiles } from './profiles.js';
import { realtimeProfiles } from './realtime-profiles.js';
import { segmentMembers } from './segment-members.js';
import { segments } from './segments.js';
import { sql } from './sql.js';
import { workflowRuns } from './workflow-runs.js';

/** Every source that a stream may read, in the order of the reference page. */
export const sources = [
  indexProfiles,
  indexes,
  profiles,
  segments,
  segmentMembers,
  profileSegments,
  realtimeProfiles,
  collectionStats,
  collectionHistory,
  campaigns,
  campaignDrafts,
  auditEvents,
  ingestJobs,
  workflowRuns,
  sql,
] as const satisfies readonly SourceDeclaration[];

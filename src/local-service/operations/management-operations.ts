import { getIngestJob, listIngestJobs } from './ingest-jobs.js';
import { listAuditEvents } from './list-audit-events.js';
import { listCampaignDrafts, listCampaigns, listSegments } from './list-named.js';
import type { Operation } from './operation.js';
import { getWorkflowRun, listWorkflowRuns, startWorkflow, stopWorkflow } from './workflow-runs.js';

/** The Management API (specification, section 4.11). */
export const managementOperations: readonly Operation[] = [
  listAuditEvents,
  listCampaigns,
  listCampaignDrafts,
  listSegments,
  listIngestJobs,
  getIngestJob,
  listWorkflowRuns,
  getWorkflowRun,
  ...startWorkflow,
  stopWorkflow,
];

import { faultOf } from '../faults/fault.js';
import { spanOf } from '../http/moment-parameter.js';
import { single } from '../http/query.js';
import { ServiceError } from '../http/service-error.js';
import type { NamedList } from '../management/named-lists.js';
import type { AuditEvent } from '../management/saved-management.js';
import type { Permission } from '../permissions.js';
import { answerPage } from './answer-page.js';
import { getIngestJob, listIngestJobs } from './ingest-jobs.js';
import { listingOf } from './listing.js';
import { managementApi, managementOf } from './management-api.js';
import type { Call, Operation } from './operation.js';
import { getWorkflowRun, listWorkflowRuns, startWorkflow, stopWorkflow } from './workflow-runs.js';

/** Campaign drafts exist under `unstable` alone, unless a deployment differs. @throws {ServiceError} 404 */
function refuseVersion({ faults, request, query }: Call): void {
  const { under, status, message } = faultOf(faults, 'drafts_version') ?? asPublished;
  const version = request.headers['api-version'] ?? single(query, 'api_version');
  const isThere = under === 'both' || under === (version === 'unstable' ? 'unstable' : 'dated');
  if (!isThere) throw new ServiceError(status, message);
}

const asPublished = { under: 'unstable', status: 404, message: 'there is no such path' } as const;

function listNamed(path: string, list: NamedList, permission: Permission): Operation {
  return {
    method: 'GET',
    path: `/api/${path}`,
    guard: managementApi(permission),
    handle: (call, state) => {
      if (list === 'campaignDrafts') refuseVersion(call);
      const template = list === 'segments' ? undefined : single(call.query, 'destination_data_template_id');
      const things = managementOf(call, state)
        .named(list)
        .filter((thing) => template === undefined || thing.template === template)
        .map(({ shown }) => shown);
      return answerPage(call, listingOf(`${path} ${template ?? ''}`, things), state);
    },
  };
}

/** GET /campaigns (specification, section 4.11). */
const listCampaigns = listNamed('campaigns', 'campaigns', 'campaigns:read');
/** GET /campaign-drafts (specification, section 4.11). */
const listCampaignDrafts = listNamed('campaign-drafts', 'campaignDrafts', 'campaign-drafts:read');
/** GET /segments (specification, section 4.11). */
const listSegments = listNamed('segments', 'segments', 'segments:read');

/** Without the fields that may be missing. */
function sparse({ principal_email, session_id, user_agent, ...event }: AuditEvent): object {
  return event;
}

/** GET /audit-events (specification, section 4.11): a production tenant also sees the events of its sandboxes. */
const listAuditEvents: Operation = {
  method: 'GET',
  path: '/api/audit-events',
  guard: managementApi('audit-events:read'),
  handle: (call, state) => {
    const { from, to } = spanOf(call.query, 'happened_from', 'happened_to');
    const events = state.management.events(call.tenant, state.keys.tenants).filter(({ happened_at }) => {
      const at = Date.parse(happened_at);
      return at >= from && at < to;
    });
    const shown = faultOf(call.faults, 'audit_sparse') === undefined ? events : events.map(sparse);
    return answerPage(call, listingOf(`audit-events ${from} ${to}`, shown), state, { maxLimit: 1000 });
  },
};

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

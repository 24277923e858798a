import { faultOf } from '../faults/fault.js';
import { flag, momentOf, single, spanOf } from '../http/query.js';
import { badRequest, jsonResponse, notFound, ServiceError } from '../http/response.js';
import type { Permission } from '../keys/api-key.js';
import type { NamedList } from '../management/named-lists.js';
import type { AuditEvent } from '../management/tenant-management.js';
import type { ServiceState } from '../service-state.js';
import { listingId, listingOf } from './listing.js';
import { type Call, managementApi, type Operation } from './operation.js';
import { pageResponse } from './page-response.js';
import { getWorkflowRun, listWorkflowRuns, startWorkflow, stopWorkflow } from './workflow-runs.js';

const dayMs = 86_400_000;
const maxWindowMs = 7 * dayMs;

interface Job {
  readonly createdAt: number;
  readonly shown: Record<string, unknown>;
}

/** The jobs that a deployment shows: all of them, unless a fault makes it forget or skip. */
function jobsOf(call: Call, state: ServiceState): Job[] {
  const nowMs = state.clock.now();
  const forgets = faultOf(call.faults, 'ingest_forgets');
  const oldest = forgets === undefined ? Number.NEGATIVE_INFINITY : nowMs - forgets.days * dayMs;
  const skipped = faultOf(call.faults, 'ingest_skipped');
  const jobs = state.management.of(call.tenant).jobs(nowMs);
  const kept = jobs.filter(({ createdAt }) => createdAt >= oldest);
  return skipped === undefined ? kept : kept.map((job) => withSkipped(job, skipped.state));
}

/** Some deployments refuse a window that begins before the days that they keep. @throws {ServiceError} 400 */
function assertRecentWindow({ faults }: Call, from: number, nowMs: number): void {
  const forgets = faultOf(faults, 'ingest_forgets');
  if (forgets?.older !== 'refused' || from >= nowMs - forgets.days * dayMs) return;
  throw badRequest(`created_from must be at most ${forgets.days} days ago`);
}

/** Skips the last table of a job; a skipped table never ends. */
function withSkipped({ createdAt, shown }: Job, skipped: string): Job {
  const tables = (shown.tables as Record<string, unknown>[]).map((table, index, all) => {
    if (index < all.length - 1) return table;
    const { ended_at, ...rest } = table;
    return { ...rest, state: skipped };
  });
  return { createdAt, shown: { ...shown, tables } };
}

/** The token that some deployments send with each response; it is not for use. @throws {ServiceError} 400 if one is sent back */
function uselessToken(call: Call, state: ServiceState): { next_token?: string } {
  const tokens = faultOf(call.faults, 'ingest_tokens');
  if (tokens === undefined) return {};
  const sent = single(call.query, 'next_token') ?? single(call.query, 'limit');
  if (tokens.when_sent === 'refused' && sent !== undefined)
    throw badRequest('next_token and limit are not allowed here');
  const salt = tokens.when_sent === 'fresh' ? state.stats.pages : 0;
  return { next_token: state.pageTokens.issue(listingId('ingest/jobs'), { position: 0, salt }) };
}

/** GET /ingest/jobs (specification, section 4.11): one page with every job of a window of at most 7 days. */
const listIngestJobs: Operation = {
  method: 'GET',
  path: '/api/ingest/jobs',
  guard: managementApi('ingest-jobs:read'),
  handle: (call, state) => {
    const from = momentOf(call.query, 'created_from');
    const to = momentOf(call.query, 'created_to');
    if (from === undefined || to === undefined) throw badRequest('created_from and created_to are required');
    if (from >= to) throw badRequest('created_from must be before created_to');
    if (to - from > maxWindowMs) throw badRequest('created_from and created_to may be at most 7 days apart');
    assertRecentWindow(call, from, state.clock.now());
    const token = uselessToken(call, state);
    const jobs = jobsOf(call, state).filter(({ createdAt }) => createdAt >= from && createdAt < to);
    state.stats.pages += 1;
    const total = flag(call.query, 'with_total') ? { total: jobs.length } : {};
    const data = jobs.slice(0, faultOf(call.faults, 'ingest_tokens')?.most).map(({ shown }) => shown);
    return jsonResponse({ data, ...token, ...total });
  },
};

/** GET /ingest/jobs/{id} (specification, section 4.11). */
const getIngestJob: Operation = {
  method: 'GET',
  path: '/api/ingest/jobs/{id}',
  guard: managementApi('ingest-jobs:read'),
  handle: (call, state) => {
    const job = jobsOf(call, state).find(({ shown }) => shown.id === call.parameters[0]);
    if (job === undefined) throw notFound('there is no ingest job of this id');
    return jsonResponse(job.shown);
  },
};

/** Campaign drafts exist under `unstable` alone, unless a deployment differs. @throws {ServiceError} 404 */
function assertVersion({ faults, request, query }: Call): void {
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
      if (list === 'campaignDrafts') assertVersion(call);
      const template = list === 'segments' ? undefined : single(call.query, 'destination_data_template_id');
      const things = state.management
        .of(call.tenant)
        .named(list)
        .filter((thing) => template === undefined || thing.template === template)
        .map(({ shown }) => shown);
      return pageResponse(call, listingOf(`${path} ${template ?? ''}`, things), state);
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
    return pageResponse(call, listingOf(`audit-events ${from} ${to}`, shown), state, { maxLimit: 1000 });
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

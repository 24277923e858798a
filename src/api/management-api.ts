import { z } from '../core/zod.js';
import {
  definedParameters,
  objectDecoder,
  type PageRequest,
  pageDecoder,
  paging,
  type QueryParameters,
} from './paging.js';
import { type Operation, pathSegment } from './request.js';

const text = z.string().nullish();
const count = z.number().nullish();

const segment = z.looseObject({ id: z.string(), name: text, status: text });

/** A segment of the tenant. */
export type Segment = z.infer<typeof segment>;

const workflowError = z.looseObject({ type: text, message: text, attribution: text, data: z.unknown().optional() });
const taskInstance = z.looseObject({
  id: text,
  state: text,
  tenant: text,
  created_at: text,
  ended_at: text,
  execution_type: text,
  label: text,
  run_id: text,
  state_changed_at: text,
  task_definition_id: text,
  task_definition_type: text,
  timeout_ms: count,
  workflow_id: text,
  error: workflowError.nullish(),
});
const workflowRun = z.looseObject({
  id: z.string(),
  state: text,
  type: text,
  name: text,
  tenant: text,
  created_at: text,
  ended_at: text,
  principal_id: text,
  principal_name: text,
  principal_email: text,
  warn_after_ms: count,
  task_instances: z.array(taskInstance).nullish(),
  error: workflowError.nullish(),
});

/**
 * One run of a workflow; states seen: scheduled, started, in progress, stopping, stopped, succeeded, failed, canceled. Lists
 * and the overview may return only `id`, `name`, `state`, `type`, `tenant`, `created_at` and `ended_at`.
 */
export type WorkflowRun = z.infer<typeof workflowRun>;

function read(path: string, label: string, query: QueryParameters = []): Operation {
  return { group: 'management', method: 'GET', path, query, label: `GET ${label}` };
}

interface AuditEventsRequest extends PageRequest {
  /** ISO 8601, UTC; included. */
  readonly happenedFrom?: string | undefined;
  /** Excluded. */
  readonly happenedTo?: string | undefined;
}

/** One page of audit events, up to 1000 (specification, section 4.11). */
export function auditEventsPageOperation({ happenedFrom, happenedTo, ...page }: AuditEventsRequest): Operation {
  const bounds = definedParameters({ happened_from: happenedFrom, happened_to: happenedTo });
  return read('/audit-events', '/audit-events', [...bounds, ...paging(page)]);
}

export interface CampaignsRequest extends PageRequest {
  readonly destinationDataTemplateId?: string | undefined;
}

function campaignsQuery({ destinationDataTemplateId, ...page }: CampaignsRequest): QueryParameters {
  return [...definedParameters({ destination_data_template_id: destinationDataTemplateId }), ...paging(page)];
}

/** One page of campaigns (specification, section 4.11). */
export function campaignsPageOperation(request: CampaignsRequest): Operation {
  return read('/campaigns', '/campaigns', campaignsQuery(request));
}

/**
 * One page of drafts of campaigns (specification, section 4.11).
 * @param version the API version for drafts, which may differ from that of the other operations
 */
export function campaignDraftsPageOperation(request: CampaignsRequest, version: string): Operation {
  return { ...read('/campaign-drafts', '/campaign-drafts', campaignsQuery(request)), version };
}

/** One page of segments (specification, section 4.11); {@link readSegments} decodes it. */
export function segmentsPageOperation(page: PageRequest): Operation {
  return read('/segments', '/segments', paging(page));
}

interface IngestJobsRequest {
  /** ISO 8601, UTC; included. At most 7 days before {@link IngestJobsRequest.createdTo}. */
  readonly createdFrom: string;
  /** Excluded. */
  readonly createdTo: string;
}

/**
 * All ingest jobs of a window (specification, section 4.11). The endpoint takes no limit and no token; a token in its response
 * is not for use (published notes, Management API).
 */
export function ingestJobsOperation({ createdFrom, createdTo }: IngestJobsRequest): Operation {
  return read('/ingest/jobs', '/ingest/jobs', definedParameters({ created_from: createdFrom, created_to: createdTo }));
}

/** One ingest job (specification, section 4.11). @throws {CdsyncError} `invalid_id` */
export function getIngestJobOperation(id: string): Operation {
  return read(`/ingest/jobs/${pathSegment(id)}`, '/ingest/jobs/{id}');
}

export interface WorkflowRunsRequest extends PageRequest {
  /** ISO 8601, UTC; included. */
  readonly createdFrom?: string | undefined;
  /** Excluded. */
  readonly createdTo?: string | undefined;
  readonly endedFrom?: string | undefined;
  readonly endedTo?: string | undefined;
  readonly state?: string | undefined;
  readonly type?: string | undefined;
}

/** One page of workflow runs (specification, section 4.11); {@link readWorkflowRuns} decodes it. */
export function workflowRunsPageOperation(request: WorkflowRunsRequest): Operation {
  const { createdFrom, createdTo, endedFrom, endedTo, state, type, ...page } = request;
  const bounds = definedParameters({
    created_from: createdFrom,
    created_to: createdTo,
    ended_from: endedFrom,
    ended_to: endedTo,
    state,
    type,
  });
  return read('/workflow/runs', '/workflow/runs', [...bounds, ...paging(page)]);
}

/** One workflow run (specification, section 4.11); {@link readWorkflowRun} decodes it. @throws {CdsyncError} `invalid_id` */
export function getWorkflowRunOperation(id: string, view?: 'overview' | 'verbose'): Operation {
  return read(`/workflow/runs/${pathSegment(id)}`, '/workflow/runs/{id}', definedParameters({ view }));
}

export interface StartWorkflowRequest {
  readonly configId: string;
  /** ISO 8601, UTC, a full time. Alone, it means that one day. */
  readonly rangeFrom?: string | undefined;
  /** Excluded; only together with {@link StartWorkflowRequest.rangeFrom}. */
  readonly rangeTo?: string | undefined;
  /** Left out: as the workflow's own schedule says. */
  readonly runMode?: 'source' | 'refresh' | 'full' | undefined;
}

/**
 * Starts a workflow (specification, section 4.11): each request starts another run. {@link readWorkflowRun} decodes it.
 * @param spelling of the path: with the trailing slash, as the specification has it, or without
 */
export function startWorkflowOperation(
  { configId, rangeFrom, rangeTo, runMode }: StartWorkflowRequest,
  spelling: 'slash' | 'plain' = 'slash',
): Operation {
  const path = spelling === 'slash' ? '/workflow/runs/' : '/workflow/runs';
  const body = Object.fromEntries([
    ['config_id', configId],
    ...definedParameters({ range_from: rangeFrom, range_to: rangeTo, run_mode: runMode }),
  ]);
  return { group: 'management', method: 'POST', path, body, label: `POST ${path}` };
}

/** Stops a workflow run (specification, section 4.11); {@link readWorkflowRun} decodes it. @throws {CdsyncError} `invalid_id` */
export function stopWorkflowOperation(id: string): Operation {
  const path = `/workflow/runs/${pathSegment(id)}/stop`;
  return { group: 'management', method: 'POST', path, idempotent: true, label: 'POST /workflow/runs/{id}/stop' };
}

/** Decodes {@link segmentsPageOperation}. @throws {MalformedBodyError} */
export const readSegments = pageDecoder<Segment>(segment);
/** Decodes {@link workflowRunsPageOperation}. @throws {MalformedBodyError} */
export const readWorkflowRuns = pageDecoder<WorkflowRun>(workflowRun);
/** Decodes the operations that respond with one workflow run. @throws {MalformedBodyError} */
export const readWorkflowRun = objectDecoder<WorkflowRun>(workflowRun);

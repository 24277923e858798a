import type { Shape } from './shape.js';

/** One operation as the interface publishes it: its request and its response. */
export interface Published {
  /** Method and path, prefix included; `{…}` matches any one segment. */
  readonly request: string;
  /** The value of `api-version`; null if the client sends no version. */
  readonly version: string | null;
  /** Parameters of the query. `[…]` after a name matches any attribute, `*` a key of any name. */
  readonly query?: readonly string[];
  /** The shape of a JSON body. */
  readonly body?: Shape;
  readonly form?: readonly string[];
  readonly status: number;
  /** The list has a total even if the request does not ask for it. */
  readonly alwaysTotal?: true;
  /** Null if the response has no body. */
  readonly response: Shape | null;
  /** The fields of the response, or of each item of its list, without which nothing can be read. */
  readonly needed?: readonly string[];
  /** The permissions that the operation needs, if they are published. */
  readonly permissions?: readonly string[];
}

const profileApi = '2025-07-31';
const managementApi = '2024-04-01';
const paging = ['limit', 'next_token', 'with_total'];
/** The lists of the Real-time API always have a total, so nothing asks for it (specification, section 4.8). */
const realtimePaging = ['limit', 'next_token'];

/** Section 2.5. On the last page, `next_token` is absent, empty or null. */
const page = (item: Shape): Shape => ({ fields: { data: { list: item }, 'next_token?': 'text', 'total?': 'integer' } });

/** Section 2.6. */
export const errorBody: Shape = {
  fields: { status: 'integer', message: 'text', 'request_id?': 'text', 'trace_id?': 'text' },
};

/** Section 2.1. */
const index: Shape = {
  fields: { id: 'text', name: 'text', 'description?': 'text', created_at: 'timestamp', updated_at: 'timestamp' },
};
/** Section 2.2. */
const indexProfile: Shape = { fields: { id: 'text', index_id: 'text', attributes: { map: 'attribute' } } };
/** Section 2.3. */
const realtimeProfile: Shape = {
  fields: {
    collection_id: 'text',
    profile_id: 'text',
    attributes: { map: 'attribute' },
    created_at: 'timestamp',
    updated_at: 'timestamp',
    ticked_at: 'timestamp',
    links: { map: { list: 'attribute' } },
  },
};
const auditEvent: Shape = {
  fields: {
    event_id: 'text',
    event_type: 'text',
    happened_at: 'timestamp',
    principal_id: 'text',
    principal_name: 'text',
    'principal_email?': 'text',
    object_id: 'text',
    'object_name?': 'text',
    origin_ip: 'text',
    user_agent: 'text',
    session_id: 'text',
    tenant: 'text',
    tenant_family: 'text',
  },
};
/** The field that filters campaigns is none of theirs. */
const campaign: Shape = { fields: { id: 'text', name: 'text', 'deliver_at?': 'timestamp' } };
const segment: Shape = { fields: { id: 'text', name: 'text', 'status?': 'text' } };
const ingestJob: Shape = {
  fields: {
    id: 'text',
    workflow_id: 'text',
    tables: {
      list: {
        fields: {
          feed_id: 'text',
          job_id: 'text',
          table_name: 'text',
          state: 'text',
          read: 'integer',
          errors: 'integer',
          rejected: 'integer',
          inserted: 'integer',
          updated: 'integer',
          started_at: 'timestamp',
          'ended_at?': 'timestamp',
          files: { list: { fields: { file_id: 'text', 'name?': 'text', read: 'integer', errors: 'integer' } } },
        },
      },
    },
  },
};
const workflowError: Shape = { fields: { type: 'text', message: 'text', attribution: 'text', data: 'anything' } };
const taskInstance: Shape = {
  fields: {
    id: 'text',
    state: 'text',
    tenant: 'text',
    created_at: 'timestamp',
    'ended_at?': 'timestamp',
    execution_type: 'text',
    label: 'text',
    run_id: 'text',
    state_changed_at: 'timestamp',
    task_definition_id: 'text',
    task_definition_type: 'text',
    timeout_ms: 'integer',
    workflow_id: 'text',
    'error?': workflowError,
  },
};
const workflowRun = {
  fields: {
    id: 'text',
    state: 'text',
    type: 'text',
    name: 'text',
    tenant: 'text',
    created_at: 'timestamp',
    'ended_at?': 'timestamp',
    'principal_id?': 'text',
    'principal_name?': 'text',
    'principal_email?': 'text',
    // Their types are not published.
    'launched_version?': 'anything',
    'current_version?': 'anything',
    'warn_after_ms?': 'integer',
    'task_instances?': { list: taskInstance },
    'error?': workflowError,
  },
} satisfies Shape;
const verboseRun: Shape = { ...workflowRun, fields: { ...workflowRun.fields, task_instances: { list: taskInstance } } };

const readsProfiles = ['profile-collections:read', 'pii:read'];
const readsSegments = ['real-time-segments:read', 'pii:read'];

/** Every operation of the interface, by the name of the client function that makes it. */
export const published: Readonly<Record<string, Published>> = {
  oauthToken: {
    request: 'POST /api/v0/oauth2/token',
    version: null,
    form: ['grant_type', 'client_id', 'client_secret'],
    status: 200,
    response: { fields: { access_token: 'text', expires_in: 'integer', token_type: 'text' } },
  },
  indexesPage: {
    request: 'GET /api/indexes',
    version: profileApi,
    query: paging,
    status: 200,
    needed: ['id', 'name'],
    response: page(index),
  },
  getIndex: {
    request: 'GET /api/indexes/{id}',
    version: profileApi,
    status: 200,
    needed: ['id', 'name'],
    response: index,
  },
  profilesPage: {
    request: 'GET /api/indexes/{id}/profiles',
    version: profileApi,
    query: [...paging, 'filter[…]'],
    status: 200,
    needed: ['id', 'index_id'],
    response: page(indexProfile),
  },
  getProfile: {
    request: 'GET /api/indexes/{id}/profiles/{id}',
    version: profileApi,
    status: 200,
    needed: ['id', 'index_id'],
    response: indexProfile,
  },
  auditEventsPage: {
    request: 'GET /api/audit-events',
    version: managementApi,
    query: [...paging, 'happened_from', 'happened_to'],
    status: 200,
    needed: ['event_id'],
    response: page(auditEvent),
  },
  campaignsPage: {
    request: 'GET /api/campaigns',
    version: managementApi,
    query: [...paging, 'destination_data_template_id'],
    status: 200,
    needed: ['id'],
    response: page(campaign),
  },
  campaignDraftsPage: {
    request: 'GET /api/campaign-drafts',
    version: 'unstable',
    query: [...paging, 'destination_data_template_id'],
    status: 200,
    needed: ['id'],
    response: page(campaign),
  },
  segmentsPage: {
    request: 'GET /api/segments',
    version: managementApi,
    query: paging,
    status: 200,
    needed: ['id', 'name'],
    response: page(segment),
  },
  ingestJobs: {
    request: 'GET /api/ingest/jobs',
    version: managementApi,
    query: ['created_from', 'created_to'],
    status: 200,
    needed: ['id'],
    response: page(ingestJob),
  },
  getIngestJob: {
    request: 'GET /api/ingest/jobs/{id}',
    version: managementApi,
    status: 200,
    needed: ['id'],
    response: ingestJob,
  },
  workflowRunsPage: {
    request: 'GET /api/workflow/runs',
    version: managementApi,
    query: [...paging, 'created_from', 'created_to', 'ended_from', 'ended_to', 'state', 'type'],
    status: 200,
    needed: ['id', 'state'],
    response: page(workflowRun),
  },
  getWorkflowRun: {
    request: 'GET /api/workflow/runs/{id}',
    version: managementApi,
    query: ['view'],
    status: 200,
    needed: ['id', 'state'],
    response: verboseRun,
  },
  startWorkflow: {
    request: 'POST /api/workflow/runs/',
    version: managementApi,
    body: { fields: { config_id: 'text', 'range_from?': 'text', 'range_to?': 'text', 'run_mode?': 'text' } },
    status: 201,
    needed: ['id', 'state'],
    response: workflowRun,
  },
  stopWorkflow: {
    request: 'POST /api/workflow/runs/{id}/stop',
    version: managementApi,
    status: 200,
    needed: ['id', 'state'],
    response: workflowRun,
  },
  sendEvent: {
    request: 'POST /prof/events/{stream-id}',
    version: null,
    body: { map: 'anything' },
    status: 202,
    response: null,
    permissions: ['profile-events:write'],
  },
  lookupProfile: {
    request: 'POST /prof/lookup/{collection-id}/keychain',
    version: null,
    body: { fields: { keys: { map: 'text' }, 'enrich?': 'boolean' } },
    status: 200,
    needed: ['profile_id'],
    response: realtimeProfile,
    permissions: readsProfiles,
  },
  lookupProfileByGet: {
    request: 'GET /prof/lookup/{collection-id}/keychain',
    version: null,
    query: ['_enrich', '*'],
    status: 200,
    needed: ['profile_id'],
    response: realtimeProfile,
    permissions: readsProfiles,
  },
  getRealtimeProfile: {
    request: 'GET /prof/profiles/{collection-id}/{profile-id}',
    version: null,
    query: ['enrich'],
    status: 200,
    needed: ['profile_id'],
    response: realtimeProfile,
    permissions: readsProfiles,
  },
  profileSegmentsPage: {
    request: 'GET /prof/profiles/{collection-id}/{profile-id}/segments',
    version: null,
    query: realtimePaging,
    status: 200,
    alwaysTotal: true,
    needed: ['segment_id'],
    response: page({ fields: { segment_id: 'text', segment_name: 'text' } }),
    permissions: readsSegments,
  },
  segmentMembersPage: {
    request: 'GET /prof/segments/{segment-id}/profiles',
    version: null,
    query: realtimePaging,
    status: 200,
    alwaysTotal: true,
    needed: ['profile_id'],
    response: page({ fields: { profile_id: 'text' } }),
    permissions: readsSegments,
  },
  collectionStats: {
    request: 'GET /prof/collections/{collection-id}/stats',
    version: null,
    status: 200,
    response: { fields: { total_profiles: 'integer', link_cardinality: { map: 'integer' } } },
    permissions: ['profile-collections:read'],
  },
  collectionHistory: {
    request: 'GET /prof/collections/{collection-id}/history',
    version: null,
    query: ['scale', 'after', 'before'],
    status: 200,
    needed: ['data'],
    response: { fields: { scale: 'text', data: { list: { fields: { bucket: 'timestamp', count: 'integer' } } } } },
    permissions: ['profile-collections:read'],
  },
};

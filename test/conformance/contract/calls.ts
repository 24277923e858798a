import type { Decode, Operation } from '../../../src/api/client.js';
import * as management from '../../../src/api/management-api.js';
import type { PageRequest } from '../../../src/api/paging.js';
import * as profile from '../../../src/api/profile-api.js';
import * as realtime from '../../../src/api/realtime-api.js';
import * as decoders from '../../fixtures/decoders.js';

/** Things that exist in the service under test. */
export interface Known {
  readonly indexId: string;
  readonly profileId: string;
  readonly ingestJobId: string;
  readonly memberId: string;
  readonly memberKeys: Readonly<Record<string, string>>;
  /** ISO 8601: from a week ago to now. */
  readonly from: string;
  readonly to: string;
  /** Starts a workflow that runs for a long time. */
  startRun(): Promise<string>;
}

/** How the client makes one operation: with every parameter that may be sent, and with an id that does not exist. */
export interface Call {
  readonly operation: (known: Known) => Operation | Promise<Operation>;
  readonly decode: Decode<unknown>;
  /** One page, if the operation is a list with pages. */
  readonly page?: (known: Known, page: PageRequest) => Operation;
  /** Asks for a thing that does not exist. */
  readonly unknown?: (known: Known) => Operation;
}

const everything: PageRequest = { limit: 7, withTotal: true };
const gone = 'not-there';
const nothing: Decode<null> = () => null;

export const calls: Readonly<Record<string, Call>> = {
  indexesPage: {
    operation: () => profile.indexesPageOperation(everything),
    page: (_, page) => profile.indexesPageOperation(page),
    decode: profile.readIndexes,
  },
  getIndex: {
    operation: ({ indexId }) => profile.getIndexOperation(indexId),
    unknown: () => profile.getIndexOperation(gone),
    decode: decoders.readIndex,
  },
  profilesPage: {
    operation: ({ indexId }) => {
      return profile.profilesPageOperation({ indexId, filter: [['tier', 'gold']], ...everything });
    },
    page: ({ indexId }, page) => profile.profilesPageOperation({ indexId, filter: [['country', 'DE']], ...page }),
    unknown: () => profile.profilesPageOperation({ indexId: gone }),
    decode: decoders.readProfiles,
  },
  getProfile: {
    operation: ({ indexId, profileId }) => profile.getProfileOperation(indexId, profileId),
    unknown: ({ indexId }) => profile.getProfileOperation(indexId, gone),
    decode: decoders.readProfile,
  },
  auditEventsPage: {
    operation: ({ from, to }) => {
      return management.auditEventsPageOperation({ happenedFrom: from, happenedTo: to, ...everything });
    },
    page: ({ from, to }, page) => management.auditEventsPageOperation({ happenedFrom: from, happenedTo: to, ...page }),
    decode: decoders.readAuditEvents,
  },
  campaignsPage: {
    operation: () => management.campaignsPageOperation({ destinationDataTemplateId: 'ddt-1', ...everything }),
    page: (_, page) => management.campaignsPageOperation(page),
    decode: decoders.readCampaigns,
  },
  campaignDraftsPage: {
    operation: () => {
      const request = { destinationDataTemplateId: 'ddt-1', ...everything };
      return management.campaignDraftsPageOperation(request, 'unstable');
    },
    page: (_, page) => management.campaignDraftsPageOperation(page, 'unstable'),
    decode: decoders.readCampaigns,
  },
  segmentsPage: {
    operation: () => management.segmentsPageOperation(everything),
    page: (_, page) => management.segmentsPageOperation(page),
    decode: management.readSegments,
  },
  ingestJobs: {
    operation: ({ from, to }) => management.ingestJobsOperation({ createdFrom: from, createdTo: to }),
    decode: decoders.readIngestJobs,
  },
  getIngestJob: {
    operation: ({ ingestJobId }) => management.getIngestJobOperation(ingestJobId),
    unknown: () => management.getIngestJobOperation(gone),
    decode: decoders.readIngestJob,
  },
  workflowRunsPage: {
    operation: ({ from, to }) => {
      const bounds = { createdFrom: from, createdTo: to, endedFrom: from, endedTo: to };
      return management.workflowRunsPageOperation({ ...bounds, state: 'succeeded', type: 'full', ...everything });
    },
    page: ({ from, to }, page) => management.workflowRunsPageOperation({ createdFrom: from, createdTo: to, ...page }),
    decode: management.readWorkflowRuns,
  },
  getWorkflowRun: {
    operation: async ({ startRun }) => management.getWorkflowRunOperation(await startRun(), 'verbose'),
    unknown: () => management.getWorkflowRunOperation(gone),
    decode: management.readWorkflowRun,
  },
  startWorkflow: {
    operation: ({ from, to }) => {
      return management.startWorkflowOperation({ configId: 'cg-1', runMode: 'source', rangeFrom: from, rangeTo: to });
    },
    decode: management.readWorkflowRun,
  },
  stopWorkflow: {
    operation: async ({ startRun }) => management.stopWorkflowOperation(await startRun()),
    unknown: () => management.stopWorkflowOperation(gone),
    decode: management.readWorkflowRun,
  },
  sendEvent: {
    operation: ({ memberKeys }) => realtime.sendEventOperation('evs-1', { event_type: 'page_view', keys: memberKeys }),
    unknown: ({ memberKeys }) => realtime.sendEventOperation(gone, { keys: memberKeys }),
    decode: nothing,
  },
  lookupProfile: {
    operation: ({ memberKeys }) => realtime.lookupProfileOperation('col-1', { keys: memberKeys, enrich: true }),
    unknown: () => realtime.lookupProfileOperation('col-1', { keys: { email: gone } }),
    decode: realtime.readRealtimeProfile,
  },
  lookupProfileByGet: {
    operation: ({ memberKeys }) => realtime.lookupProfileByGetOperation('col-1', { keys: memberKeys, enrich: true }),
    unknown: () => realtime.lookupProfileByGetOperation('col-1', { keys: { email: gone } }),
    decode: realtime.readRealtimeProfile,
  },
  getRealtimeProfile: {
    operation: ({ memberId }) => realtime.getRealtimeProfileOperation('col-1', memberId, { enrich: true }),
    unknown: () => realtime.getRealtimeProfileOperation('col-1', gone),
    decode: realtime.readRealtimeProfile,
  },
  profileSegmentsPage: {
    operation: ({ memberId }) => realtime.profileSegmentsPageOperation('col-1', memberId, { limit: 7 }),
    page: ({ memberId }, page) => realtime.profileSegmentsPageOperation('col-1', memberId, page),
    unknown: () => realtime.profileSegmentsPageOperation('col-1', gone, {}),
    decode: decoders.readProfileSegments,
  },
  segmentMembersPage: {
    operation: () => realtime.segmentMembersPageOperation('seg-gold', { limit: 7 }),
    page: (_, page) => realtime.segmentMembersPageOperation('seg-gold', page),
    unknown: () => realtime.segmentMembersPageOperation(gone, {}),
    decode: decoders.readSegmentMembers,
  },
  collectionStats: {
    operation: () => realtime.collectionStatsOperation('col-1'),
    unknown: () => realtime.collectionStatsOperation(gone),
    decode: decoders.readCollectionStats,
  },
  collectionHistory: {
    operation: ({ from, to }) =>
      realtime.collectionHistoryOperation('col-1', { scale: 'hour', after: from, before: to }),
    unknown: () => realtime.collectionHistoryOperation(gone),
    decode: decoders.readCollectionHistory,
  },
};

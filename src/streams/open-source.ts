import { type RequestMeter, type ServiceClient, ServiceError } from '../client/client.js';
import { indexesPageOperation, readIndexes } from '../client/profile-api.js';
import type { StreamConfig, StreamConfigOf } from '../config/config.js';
import { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/nearest.js';
import type { ServiceOptions } from '../core/service-options.js';
import type { Session } from '../store/duckdb.js';
import { auditEventsSource } from './audit-events.js';
import { campaignDraftsSource, campaignsSource } from './campaigns.js';
import { collectionHistorySource } from './collection-history.js';
import { collectionStatsSource } from './collection-stats.js';
import { indexProfilesSource } from './index-profiles.js';
import { indexesSource } from './indexes.js';
import { ingestJobsSource } from './ingest-jobs.js';
import { readIdentityKeys, readIds } from './key-list.js';
import { profileSegmentsSource } from './profile-segments.js';
import { profilesSource } from './profiles.js';
import { realtimeProfilesSource } from './realtime-profiles.js';
import { segmentMembersSource } from './segment-members.js';
import { segmentsSource } from './segments.js';
import type { KeyedSource, Source, WindowedSource } from './source.js';
import { workflowRunsSource } from './workflow-runs.js';

export interface SourceContext {
  readonly client: ServiceClient;
  readonly service: ServiceOptions;
  readonly signal: AbortSignal;
  readonly meter: RequestMeter;
  /** Where lists of keys are read; it sees the streams that they may be made of. */
  readonly session: Session;
  /** Milliseconds since 1970. */
  readonly now: number;
  /** When the last run that has read this stream began; undefined before the first. */
  readonly lastRunAt: string | undefined;
}

interface IndexName {
  readonly id: string;
  readonly name?: string | undefined;
}

/** All indexes that the key may see; undefined where it may see none, which need not keep it from reading one. */
async function listIndexes({ client, signal, meter }: SourceContext): Promise<IndexName[] | undefined> {
  const found: IndexName[] = [];
  let token: string | null = null;
  try {
    do {
      const operation = indexesPageOperation({ nextToken: token, limit: 100, withTotal: false });
      const page: { data: IndexName[]; nextToken: string | null } = await client.send(operation, readIndexes, {
        signal,
        meter,
      });
      found.push(...page.data);
      token = page.nextToken;
    } while (token !== null && found.length < 10_000);
    return found;
  } catch (error) {
    if (error instanceof ServiceError && error.status === 403) return undefined;
    throw error;
  }
}

/** The id of the index that is called so, by id or by name. */
async function resolveIndex(context: SourceContext, idOrName: string): Promise<string> {
  const indexes = await listIndexes(context);
  if (indexes === undefined || indexes.some(({ id }) => id === idOrName)) return idOrName;
  const named = indexes.filter(({ name }) => name === idOrName);
  const [only] = named;
  if (named.length === 1 && only !== undefined) return only.id;
  if (named.length > 1) {
    throw new CdsyncError(`${named.length} indexes are called "${idOrName}"`, {
      code: 'index_ambiguous',
      hint: `give the id instead: ${named.map(({ id }) => id).join(', ')}`,
    });
  }
  const names = indexes.flatMap(({ id, name }) => (name === undefined ? [id] : [name, id]));
  const near = nearest(idOrName, names);
  const shown = near.length > 0 ? near : names.slice(0, 10);
  throw new CdsyncError(`the tenant has no index "${idOrName}"`, {
    code: 'index_not_found',
    hint:
      shown.length === 0
        ? 'it has no indexes at all: check `tenant_id`'
        : `did you mean ${shown.map((name) => `"${name}"`).join(' or ')}?`,
  });
}

/** A stream that is asked for in windows of time; undefined for any other. */
export function windowedSource(config: StreamConfig): WindowedSource | undefined {
  switch (config.source) {
    case 'audit_events':
      return auditEventsSource();
    case 'ingest_jobs':
      return ingestJobsSource();
    case 'workflow_runs':
      return workflowRunsSource();
    default:
      return undefined;
  }
}

async function realtimeProfiles(
  config: StreamConfigOf<'realtime_profiles'>,
  { session }: SourceContext,
): Promise<KeyedSource> {
  const { collection, enrich, method, ids, keys } = config;
  return realtimeProfilesSource({
    collection,
    enrich,
    method,
    ids: ids === undefined ? undefined : await readIds(session, ids),
    keys: keys === undefined ? undefined : await readIdentityKeys(session, keys),
  });
}

/**
 * What a stream reads.
 * @throws {CdsyncError} `index_not_found` (with the nearest names), `index_ambiguous`, what the lists of keys throw, and
 * what the client throws
 */
export async function openSource(
  config: Exclude<StreamConfig, { source: 'sql' }>,
  context: SourceContext,
): Promise<Source> {
  switch (config.source) {
    case 'indexes':
      return indexesSource();
    case 'index_profiles':
      return indexProfilesSource(await resolveIndex(context, config.index));
    case 'profiles':
      return profilesSource(await resolveIndex(context, config.index), await readIds(context.session, config.ids));
    case 'segments':
      return segmentsSource();
    case 'campaigns':
      return campaignsSource(config.destinationDataTemplateId);
    case 'campaign_drafts':
      return campaignDraftsSource(config.destinationDataTemplateId, context.service);
    case 'segment_members':
      return segmentMembersSource(config.segment);
    case 'profile_segments':
      return profileSegmentsSource(config.collection, await readIds(context.session, config.ids));
    case 'realtime_profiles':
      return realtimeProfiles(config, context);
    case 'collection_stats':
      return collectionStatsSource(config.collection, new Date(context.now).toISOString());
    case 'collection_history':
      return collectionHistorySource(config.collection, config.scale, context.lastRunAt);
    case 'audit_events':
      return auditEventsSource();
    case 'ingest_jobs':
      return ingestJobsSource();
    case 'workflow_runs':
      return workflowRunsSource();
  }
}

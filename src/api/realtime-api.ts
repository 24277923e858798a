import { z } from '../core/zod.js';
import { definedParameters, objectDecoder, type PageRequest, paging, type QueryParameters } from './paging.js';
import { type Operation, pathSegment } from './request.js';

const text = z.string().nullish();

const realtimeProfile = z.looseObject({
  collection_id: text,
  profile_id: z.string(),
  attributes: z.record(z.string(), z.unknown()).nullish(),
  created_at: text,
  updated_at: text,
  ticked_at: text,
  // A map of lists is specified; lists have been seen (published notes, Real-time API).
  links: z.unknown().optional(),
});

/** A profile of a collection (specification, section 2.3). Fields that are not known are kept. */
export type RealtimeProfile = z.infer<typeof realtimeProfile>;

const readsProfiles = ['profile-collections:read', 'pii:read'];
const readsSegments = ['real-time-segments:read', 'pii:read'];

function read(
  path: string,
  label: string,
  { query = [], permissions }: { query?: QueryParameters; permissions: readonly string[] },
): Operation {
  return { group: 'realtime', method: 'GET', path, query, label: `GET ${label}`, permissions };
}

/**
 * Sends one event to a stream (specification, sections 4.10 and 6). The responses 202 and 204 have no body. An event that is
 * sent twice may count twice.
 * @param event a JSON object of at most 64 KB, or its text
 * @throws {CdsyncError} `invalid_id`
 */
export function sendEventOperation(streamId: string, event: Readonly<Record<string, unknown>> | string): Operation {
  return {
    group: 'realtime',
    method: 'POST',
    path: `/events/${pathSegment(streamId)}`,
    ...(typeof event === 'string' ? { json: event } : { body: event }),
    returnsNothing: true,
    label: 'POST /events/{stream-id}',
    permissions: ['profile-events:write'],
    permissionInstead: 'streaming-ingest-api:write',
  };
}

interface LookupRequest {
  /** The value of each identity key, by the key's name; at least one. */
  readonly keys: Readonly<Record<string, string>>;
  /** Asks for enriched attributes as well. */
  readonly enrich?: boolean;
}

/**
 * Finds one profile by its identity keys, which are sent in the body (specification, section 4.6);
 * {@link readRealtimeProfile} decodes it.
 * @throws {CdsyncError} `invalid_id`
 */
export function lookupProfileOperation(collectionId: string, { keys, enrich }: LookupRequest): Operation {
  return {
    group: 'realtime',
    method: 'POST',
    path: `/lookup/${pathSegment(collectionId)}/keychain`,
    body: enrich === undefined ? { keys } : { keys, enrich },
    idempotent: true,
    label: 'POST /lookup/{collection-id}/keychain',
    permissions: readsProfiles,
  };
}

/**
 * The same with the keys in the URL, where proxies may log them (specification, section 4.7);
 * {@link readRealtimeProfile} decodes it.
 * @throws {CdsyncError} `invalid_id`
 */
export function lookupProfileByGetOperation(collectionId: string, { keys, enrich }: LookupRequest): Operation {
  const query = [...definedParameters(keys), ...definedParameters({ _enrich: enrich ? 'true' : undefined })];
  const path = `/lookup/${pathSegment(collectionId)}/keychain`;
  return read(path, '/lookup/{collection-id}/keychain', { query, permissions: readsProfiles });
}

/**
 * One profile of a collection (specification, section 4.10); {@link readRealtimeProfile} decodes it.
 * @throws {CdsyncError} `invalid_id`
 */
export function getRealtimeProfileOperation(
  collectionId: string,
  profileId: string,
  { enrich }: { enrich?: boolean } = {},
): Operation {
  const path = `/profiles/${pathSegment(collectionId)}/${pathSegment(profileId)}`;
  const query = definedParameters({ enrich: enrich ? 'true' : undefined });
  return read(path, '/profiles/{collection-id}/{profile-id}', { query, permissions: readsProfiles });
}

/**
 * One page of the real-time segments that a profile is in (specification, section 4.8).
 * @throws {CdsyncError} `invalid_id`
 */
export function profileSegmentsPageOperation(collectionId: string, profileId: string, page: PageRequest): Operation {
  const path = `/profiles/${pathSegment(collectionId)}/${pathSegment(profileId)}/segments`;
  const label = '/profiles/{collection-id}/{profile-id}/segments';
  return read(path, label, { query: paging(page), permissions: readsSegments });
}

/**
 * One page of the members of a real-time segment (specification, section 4.10). On some deployments the next token points back to
 * the first page again.
 * @throws {CdsyncError} `invalid_id`
 */
export function segmentMembersPageOperation(segmentId: string, page: PageRequest): Operation {
  const path = `/segments/${pathSegment(segmentId)}/profiles`;
  return read(path, '/segments/{segment-id}/profiles', { query: paging(page), permissions: readsSegments });
}

/** Statistics of a collection (specification, section 4.10). @throws {CdsyncError} `invalid_id` */
export function collectionStatsOperation(collectionId: string): Operation {
  const path = `/collections/${pathSegment(collectionId)}/stats`;
  return read(path, '/collections/{collection-id}/stats', { permissions: ['profile-collections:read'] });
}

interface CollectionHistoryRequest {
  /** Width of a bucket; left out: day. */
  readonly scale?: 'minute' | 'hour' | 'day' | undefined;
  /** ISO 8601, UTC. */
  readonly after?: string | undefined;
  readonly before?: string | undefined;
}

/**
 * Profile counts of a collection over time (specification, section 4.10).
 * @throws {CdsyncError} `invalid_id`
 */
export function collectionHistoryOperation(
  collectionId: string,
  { scale, after, before }: CollectionHistoryRequest = {},
): Operation {
  const path = `/collections/${pathSegment(collectionId)}/history`;
  const query = definedParameters({ scale, after, before });
  return read(path, '/collections/{collection-id}/history', { query, permissions: ['profile-collections:read'] });
}

/** Decodes {@link lookupProfileOperation} and {@link getRealtimeProfileOperation}. @throws {MalformedBodyError} */
export const readRealtimeProfile = objectDecoder<RealtimeProfile>(realtimeProfile);

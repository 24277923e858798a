import {
  getRealtimeProfileOperation,
  lookupProfileByGetOperation,
  lookupProfileOperation,
} from '../client/realtime-api.js';
import type { KeyedRequest, KeyedSource } from './source.js';

export interface RealtimeProfilesRequest {
  readonly collection: string;
  readonly enrich: boolean;
  readonly method: 'post' | 'get';
  /** One of the two is given. */
  readonly ids: readonly string[] | undefined;
  /** Identity keys by name, one map for each profile. */
  readonly keys: readonly Readonly<Record<string, string>>[] | undefined;
}

function requests({ collection, enrich, method, ids, keys }: RealtimeProfilesRequest): KeyedRequest[] {
  const byId = (ids ?? []).map(
    (id): KeyedRequest => ({
      operation: () => getRealtimeProfileOperation(collection, id, { enrich }),
      answers: 'record',
      added: {},
      expected: { profile_id: id },
    }),
  );
  const lookup = method === 'get' ? lookupProfileByGetOperation : lookupProfileOperation;
  const byKeys = (keys ?? []).map(
    (each): KeyedRequest => ({
      operation: () => lookup(collection, { keys: each, enrich }),
      answers: 'record',
      added: {},
    }),
  );
  return [...byId, ...byKeys];
}

/** Real-time profiles, by id or by identity keys (specification, sections 2.3, 4.6, 4.7 and 4.10). */
export function realtimeProfilesSource(request: RealtimeProfilesRequest): KeyedSource {
  return {
    kind: 'keyed',
    brings: 'everything',
    added: {},
    declared: [
      { field: 'profile_id', type: 'VARCHAR' },
      { field: 'collection_id', type: 'VARCHAR' },
      { field: 'created_at', type: 'TIMESTAMP WITH TIME ZONE' },
      { field: 'updated_at', type: 'TIMESTAMP WITH TIME ZONE' },
      { field: 'ticked_at', type: 'TIMESTAMP WITH TIME ZONE' },
    ],
    container: 'attributes',
    key: ['profile_id'],
    identity: { source: 'realtime_profiles', ...request },
    mayMiss: true,
    requests: requests(request),
  };
}

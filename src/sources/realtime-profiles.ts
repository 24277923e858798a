import {
  getRealtimeProfileOperation,
  lookupProfileByGetOperation,
  lookupProfileOperation,
} from '../api/realtime-api.js';
import type { OptionProblem } from '../sdk/option.js';
import { choice, flag, withKeys } from '../sdk/option.js';
import { source } from './declaration.js';
import { collection, identityKeys, ids, queryOfKeys } from './key-options.js';
import type { KeyedRequest } from './source.js';

interface RealtimeProfilesRequest {
  readonly collection: string;
  readonly enrich: boolean;
  readonly method: 'post' | 'get';
  /** Either these or the `keys` are set. */
  readonly ids: readonly string[] | undefined;
  /** Identity keys by name, one map for each profile. */
  readonly keys: readonly Readonly<Record<string, string>>[] | undefined;
}

function requests({ collection: of, enrich, method, ids: byId, keys }: RealtimeProfilesRequest): KeyedRequest[] {
  const gets = (byId ?? []).map(
    (id): KeyedRequest => ({
      key: id,
      operation: () => getRealtimeProfileOperation(of, id, { enrich }),
      returns: 'record',
      added: {},
      expected: { profile_id: id },
    }),
  );
  const lookup = method === 'get' ? lookupProfileByGetOperation : lookupProfileOperation;
  const lookups = (keys ?? []).map(
    (key): KeyedRequest => ({
      operation: () => lookup(of, { keys: key, enrich }),
      returns: 'record',
      added: {},
    }),
  );
  return [...gets, ...lookups];
}

function idsOrKeys(stream: unknown): OptionProblem[] {
  const { ids: byId, keys } = stream as { ids?: unknown; keys?: unknown };
  if ((byId === undefined) !== (keys === undefined)) return [];
  return [{ path: byId === undefined ? [] : ['keys'], message: 'give either ids or keys' }];
}

/** Real-time profiles, by id or by identity keys (specification, sections 2.3, 4.6, 4.7 and 4.10). */
export const realtimeProfiles = source({
  name: 'realtime_profiles',
  description: 'Real-time profiles of a collection, by profile id or by identity keys.',
  options: {
    collection,
    ids: ids.optional(),
    keys: identityKeys.optional(),
    enrich: flag({ description: 'Also asks for enriched attributes.', example: true }).prefault(false),
    method: choice(['post', 'get'], {
      description:
        'How to look profiles up by `keys`. `post` sends the keys in the body; `get` puts them into the URL, where proxies log them.',
      example: 'get',
    }).prefault('post'),
  },
  check: idsOrKeys,
  editorRules: { oneOf: [withKeys('ids'), withKeys('keys')] },
  // An id or a key that is no longer listed is a delete.
  notDefining: ['ids', 'keys', 'enrich', 'method'],
  group: 'realtime',
  coverage: 'everything',
  declared: {
    profile_id: 'VARCHAR',
    collection_id: 'VARCHAR',
    created_at: 'TIMESTAMP WITH TIME ZONE',
    updated_at: 'TIMESTAMP WITH TIME ZONE',
    ticked_at: 'TIMESTAMP WITH TIME ZONE',
  },
  container: 'attributes',
  key: ['profile_id'],
  hashesKey: true,
  readOptions: ({ ids: byId, keys }) => ({ query: queryOfKeys(byId) ?? queryOfKeys(keys) }),
  open: async ({ collection: of, enrich, method, ids: byId, keys }, context) => {
    const { readIdentityKeys, readIds } = await import('./key-list.js');
    const { collectionOwner } = await import('./key-owner.js');
    const asked = {
      collection: of,
      enrich,
      method,
      ids: byId === undefined ? undefined : await readIds(context, byId),
      keys: keys === undefined ? undefined : await readIdentityKeys(context, keys),
    };
    return { kind: 'keyed', asked, mayMiss: true, owner: collectionOwner(of), requests: requests(asked) };
  },
});

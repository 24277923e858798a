import { getProfileOperation } from '../client/profile-api.js';
import { indexProfilesSource } from './index-profiles.js';
import type { KeyedSource } from './source.js';

/** Some profiles of an index, by id (specification, section 4.5). */
export function profilesSource(indexId: string, ids: readonly string[]): KeyedSource {
  const { declared, container, key, added } = indexProfilesSource(indexId);
  return {
    kind: 'keyed',
    brings: 'everything',
    added,
    declared,
    container,
    key,
    identity: { source: 'profiles', index: indexId, ids },
    mayMiss: true,
    requests: ids.map((id) => ({
      operation: () => getProfileOperation(indexId, id),
      answers: 'record',
      added: {},
      expected: { id },
    })),
  };
}

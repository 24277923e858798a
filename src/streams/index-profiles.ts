import { getProfileOperation, profilesPageOperation } from '../client/profile-api.js';
import type { ListSource } from './source.js';

/** The profiles of one index (specification, sections 2.2, 4.4 and 4.5). */
export function indexProfilesSource(indexId: string): ListSource {
  return {
    kind: 'list',
    brings: 'everything',
    added: {},
    identity: { source: 'index_profiles', index: indexId },
    declared: [
      { field: 'id', type: 'VARCHAR' },
      { field: 'index_id', type: 'VARCHAR' },
    ],
    container: 'attributes',
    key: ['id'],
    page: ({ token, limit, filter, withTotal }) =>
      profilesPageOperation({ indexId, nextToken: token, limit, filter, withTotal }),
    one: (id) => getProfileOperation(indexId, id),
  };
}

import { getIndexOperation, indexesPageOperation } from '../client/profile-api.js';
import type { ListSource } from './source.js';

/** All indexes of the tenant (specification, sections 2.1, 4.2 and 4.3). */
export function indexesSource(): ListSource {
  return {
    kind: 'list',
    brings: 'everything',
    added: {},
    identity: { source: 'indexes' },
    declared: [
      { field: 'id', type: 'VARCHAR' },
      { field: 'name', type: 'VARCHAR' },
      { field: 'description', type: 'VARCHAR' },
      { field: 'created_at', type: 'TIMESTAMP WITH TIME ZONE' },
      { field: 'updated_at', type: 'TIMESTAMP WITH TIME ZONE' },
    ],
    container: null,
    key: ['id'],
    page: ({ token, limit, withTotal }) => indexesPageOperation({ nextToken: token, limit, withTotal }),
    one: (id) => getIndexOperation(id),
  };
}

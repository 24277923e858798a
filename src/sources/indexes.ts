import { getIndexOperation, indexesPageOperation } from '../api/profile-api.js';
import { source } from './declaration.js';

/** All indexes of the tenant (specification, sections 2.1, 4.2 and 4.3). */
export const indexes = source({
  name: 'indexes',
  description: 'The indexes of the tenant.',
  options: {},
  group: 'profile',
  coverage: 'everything',
  declared: [
    { field: 'id', type: 'VARCHAR' },
    { field: 'name', type: 'VARCHAR' },
    { field: 'description', type: 'VARCHAR' },
    { field: 'created_at', type: 'TIMESTAMP WITH TIME ZONE' },
    { field: 'updated_at', type: 'TIMESTAMP WITH TIME ZONE' },
  ],
  container: null,
  key: ['id'],
  pages: {},
  open: () => ({
    kind: 'list',
    page: ({ token, limit, withTotal }) => indexesPageOperation({ nextToken: token, limit, withTotal }),
    one: (id) => getIndexOperation(id),
  }),
});

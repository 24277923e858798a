import { getIndexOperation, indexesPageOperation } from '../api/profile-api.js';
import { source } from './declaration.js';

/** All indexes of the tenant (specification, sections 2.1, 4.2 and 4.3). */
export const indexes = source({
  name: 'indexes',
  description: 'The indexes of the tenant.',
  options: {},
  group: 'profile',
  coverage: 'everything',
  declared: {
    id: 'VARCHAR',
    name: 'VARCHAR',
    description: 'VARCHAR',
    created_at: 'TIMESTAMP WITH TIME ZONE',
    updated_at: 'TIMESTAMP WITH TIME ZONE',
  },
  key: ['id'],
  pages: {},
  open: () => ({
    kind: 'list',
    page: ({ token, limit, withTotal }) => indexesPageOperation({ nextToken: token, limit, withTotal }),
    one: (id) => getIndexOperation(id),
  }),
});

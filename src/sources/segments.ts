import { segmentsPageOperation } from '../api/management-api.js';
import { source } from './declaration.js';

/** The segments of the tenant (specification, section 4.11). */
export const segments = source({
  name: 'segments',
  description: 'The segments of the tenant.',
  options: {},
  group: 'management',
  coverage: 'everything',
  declared: { id: 'VARCHAR', name: 'VARCHAR', status: 'VARCHAR' },
  key: ['id'],
  pages: {},
  open: () => ({
    kind: 'list',
    page: ({ token, limit, withTotal }) => segmentsPageOperation({ nextToken: token, limit, withTotal }),
  }),
});

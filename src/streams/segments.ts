import { segmentsPageOperation } from '../client/management-api.js';
import type { ListSource } from './source.js';

/** The segments of the tenant (specification, section 4.11). */
export function segmentsSource(): ListSource {
  return {
    kind: 'list',
    brings: 'everything',
    added: {},
    identity: { source: 'segments' },
    declared: [
      { field: 'id', type: 'VARCHAR' },
      { field: 'name', type: 'VARCHAR' },
      { field: 'status', type: 'VARCHAR' },
    ],
    container: null,
    key: ['id'],
    page: ({ token, limit, withTotal }) => segmentsPageOperation({ nextToken: token, limit, withTotal }),
  };
}

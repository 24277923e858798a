import { getIngestJobOperation, ingestJobsOperation } from '../client/management-api.js';
import { source } from './declaration.js';
import { mayChange } from './run-state.js';
import { windowManners, windowOptionNames, windowOptions } from './window-options.js';

/** The ingest jobs of the tenant, by the time they were created (specification, section 4.11); windows of 7 days at most. */
export const ingestJobs = source({
  name: 'ingest_jobs',
  description: 'The ingest jobs of the tenant. cdsync reads a job again by id until it has ended.',
  options: windowOptions,
  notDefining: windowOptionNames,
  group: 'management',
  brings: 'additions',
  declared: [
    { field: 'id', type: 'VARCHAR' },
    { field: 'workflow_id', type: 'VARCHAR' },
  ],
  container: null,
  key: ['id'],
  watched: ['tables'],
  // A job has no state of its own: it has ended when all of its tables have.
  isUnfinished: ({ tables }) =>
    !Array.isArray(tables) ||
    tables.length === 0 ||
    tables.some((table: { state?: unknown } | null) => mayChange(table?.state)),
  pages: {},
  manners: windowManners,
  open: () => ({
    kind: 'windowed',
    longestWindowMs: 7 * 86_400_000,
    takesLimit: false,
    page: ({ window, token }) =>
      ingestJobsOperation({ createdFrom: window.from, createdTo: window.to, nextToken: token }),
    one: (id) => getIngestJobOperation(id),
  }),
});

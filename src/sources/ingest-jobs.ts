import { getIngestJobOperation, ingestJobsOperation } from '../api/management-api.js';
import { source } from './declaration.js';
import { windowOptionNames, windowOptions, windowReadOptions } from './window-options.js';
import { isUnfinishedRun } from './workflow-runs.js';

const dayMs = 86_400_000;
/** Some deployments have jobs only for this long (published notes, Management API). */
const certainDays = 7;

/** The ingest jobs of the tenant, by the time they were created (specification, section 4.11). */
export const ingestJobs = source({
  name: 'ingest_jobs',
  description:
    'The ingest jobs of the tenant. cdsync reads a job again by id until it has ended, for seven days at most.',
  options: windowOptions(certainDays),
  notDefining: windowOptionNames,
  group: 'management',
  coverage: 'additions',
  declared: { id: 'VARCHAR', workflow_id: 'VARCHAR' },
  key: ['id'],
  watched: ['tables'],
  // A job has no own state: it has ended when all of its tables have.
  isUnfinished: ({ tables }) =>
    !Array.isArray(tables) ||
    tables.length === 0 ||
    tables.some((table: object | null) => isUnfinishedRun(table ?? {})),
  forgottenAfterMs: certainDays * dayMs,
  pages: {},
  readOptions: windowReadOptions(certainDays),
  open: () => ({
    kind: 'windowed',
    // The service allows 7 days. Shorter windows have fewer jobs, and no response can be distinguished from one that was cut off.
    maxWindowMs: dayMs,
    takesLimit: false,
    certainMs: certainDays * dayMs,
    page: ({ window }) => ingestJobsOperation({ createdFrom: window.from, createdTo: window.to }),
    one: (id) => getIngestJobOperation(id),
  }),
});

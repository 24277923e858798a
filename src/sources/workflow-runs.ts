import { getWorkflowRunOperation, workflowRunsPageOperation } from '../api/management-api.js';
import { source } from './declaration.js';
import { windowOptionNames, windowOptions, windowReadOptions } from './window-options.js';

/** The states of jobs, tables and runs that have ended, as {@link plainState} writes them. */
const ended = new Set(['succeeded', 'failed', 'stopped', 'canceled', 'skipped']);

/** A state in one spelling: `IN_PROGRESS` is `in progress`, `Cancelled` is `canceled`. */
export function plainState(state: string): string {
  return state
    .trim()
    .toLowerCase()
    .replace(/[\s_-]+/g, ' ')
    .replace(/^cancelled$/, 'canceled');
}

/**
 * Whether a job, a table or a run may still change. In an unknown state it may, until `ended_at` has a time.
 */
export function isUnfinishedRun({ state, ended_at: endedAt }: { state?: unknown; ended_at?: unknown }): boolean {
  return !endedAt && (typeof state !== 'string' || !ended.has(plainState(state)));
}

/** The workflow runs of the tenant, by the time they were created (specification, section 4.11). */
export const workflowRuns = source({
  name: 'workflow_runs',
  description:
    'The workflow runs of the tenant. cdsync reads the details of each run by id, and again until it has ended.',
  options: windowOptions(),
  notDefining: windowOptionNames,
  group: 'management',
  coverage: 'additions',
  declared: {
    id: 'VARCHAR',
    state: 'VARCHAR',
    type: 'VARCHAR',
    name: 'VARCHAR',
    created_at: 'TIMESTAMP WITH TIME ZONE',
    ended_at: 'TIMESTAMP WITH TIME ZONE',
  },
  key: ['id'],
  watched: ['state', 'ended_at'],
  isUnfinished: isUnfinishedRun,
  details: ['error', 'principal_id', 'principal_name', 'launched_version', 'current_version', 'task_instances'],
  // Each run of a page is one more request: a page is read within ten seconds, and a run that is cut short loses no more.
  pages: { size: 100 },
  readOptions: windowReadOptions(),
  open: () => ({
    kind: 'windowed',
    maxWindowMs: 30 * 86_400_000,
    takesLimit: true,
    page: ({ window, token, limit, withTotal }) =>
      workflowRunsPageOperation({
        createdFrom: window.from,
        createdTo: window.to,
        nextToken: token,
        limit,
        withTotal,
      }),
    one: (id) => getWorkflowRunOperation(id),
    details: {
      overview: ['id', 'name', 'state', 'type', 'tenant', 'created_at', 'ended_at'],
      one: (id) => getWorkflowRunOperation(id, 'verbose'),
    },
  }),
});

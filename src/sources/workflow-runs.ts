import { getWorkflowRunOperation, workflowRunsPageOperation } from '../api/management-api.js';
import { source } from './declaration.js';
import { windowOptionNames, windowOptions, windowReadOptions } from './window-options.js';
import { isUnfinishedRun } from './workflow-run-state.js';

/** The workflow runs of the tenant, by the time they were created (specification, section 4.11). */
export const workflowRuns = source({
  name: 'workflow_runs',
  description:
    'The workflow runs of the tenant. cdsync reads the details of each run by id, and again until it has ended.',
  options: windowOptions(),
  notDefining: windowOptionNames,
  group: 'management',
  brings: 'additions',
  declared: [
    { field: 'id', type: 'VARCHAR' },
    { field: 'state', type: 'VARCHAR' },
    { field: 'type', type: 'VARCHAR' },
    { field: 'name', type: 'VARCHAR' },
    { field: 'created_at', type: 'TIMESTAMP WITH TIME ZONE' },
    { field: 'ended_at', type: 'TIMESTAMP WITH TIME ZONE' },
  ],
  container: null,
  key: ['id'],
  watched: ['state', 'ended_at'],
  isUnfinished: isUnfinishedRun,
  details: ['error', 'principal_id', 'principal_name', 'launched_version', 'current_version', 'task_instances'],
  // Each run of a page is one more request: a page is read within ten seconds, and a run that is cut short loses no more.
  pages: { size: 100 },
  manners: windowReadOptions(),
  open: () => ({
    kind: 'windowed',
    longestWindowMs: 30 * 86_400_000,
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

import { getWorkflowRunOperation, workflowRunsPageOperation } from '../client/management-api.js';
import { source } from './declaration.js';
import { mayChange } from './run-state.js';
import { windowManners, windowOptionNames, windowOptions } from './window-options.js';

/** The workflow runs of the tenant, by the time they were created (specification, section 4.11). */
export const workflowRuns = source({
  name: 'workflow_runs',
  description: 'The workflow runs of the tenant. cdsync reads a run again by id until it has ended.',
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
  watched: ['state'],
  isUnfinished: ({ state }) => mayChange(state),
  pages: {},
  manners: windowManners(),
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
  }),
});

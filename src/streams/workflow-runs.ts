import { getWorkflowRunOperation, workflowRunsPageOperation } from '../client/management-api.js';
import { mayChange } from './run-state.js';
import type { WindowedSource } from './source.js';

/** The workflow runs of the tenant, by the time they were created (specification, section 4.11). */
export function workflowRunsSource(): WindowedSource {
  return {
    kind: 'windowed',
    brings: 'additions',
    added: {},
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
    identity: { source: 'workflow_runs' },
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
    watched: ['state'],
    isUnfinished: ({ state }) => mayChange(state),
  };
}

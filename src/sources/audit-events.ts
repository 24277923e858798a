import { auditEventsPageOperation } from '../api/management-api.js';
import { source } from './declaration.js';
import { windowOptionNames, windowOptions, windowReadOptions } from './window-options.js';

/** The audit events of the tenant, by the time they happened (specification, section 4.11). */
export const auditEvents = source({
  name: 'audit_events',
  description: 'The audit events of the tenant. Events are never deleted.',
  options: windowOptions(),
  notDefining: windowOptionNames,
  group: 'management',
  coverage: 'additions',
  declared: { event_id: 'VARCHAR', event_type: 'VARCHAR', happened_at: 'TIMESTAMP WITH TIME ZONE' },
  key: ['event_id'],
  watched: ['happened_at'],
  // The largest page that the service's documentation allows.
  pages: { size: 1000 },
  readOptions: windowReadOptions(),
  open: () => ({
    kind: 'windowed',
    maxWindowMs: 7 * 86_400_000,
    takesLimit: true,
    page: ({ window, token, limit, withTotal }) =>
      auditEventsPageOperation({
        happenedFrom: window.from,
        happenedTo: window.to,
        nextToken: token,
        limit,
        withTotal,
      }),
  }),
});

import { auditEventsPageOperation } from '../client/management-api.js';
import type { WindowedSource } from './source.js';

/** The audit events of the tenant, by the time they happened (specification, section 4.11). */
export function auditEventsSource(): WindowedSource {
  return {
    kind: 'windowed',
    brings: 'additions',
    added: {},
    declared: [
      { field: 'event_id', type: 'VARCHAR' },
      { field: 'event_type', type: 'VARCHAR' },
      { field: 'happened_at', type: 'TIMESTAMP WITH TIME ZONE' },
    ],
    container: null,
    key: ['event_id'],
    identity: { source: 'audit_events' },
    longestWindowMs: 7 * 86_400_000,
    takesLimit: true,
    page: ({ window, token, limit, withTotal }) =>
      auditEventsPageOperation({
        happenedFrom: window.from,
        happenedTo: window.to,
        nextToken: token,
        limit,
        withTotal,
      }),
  };
}

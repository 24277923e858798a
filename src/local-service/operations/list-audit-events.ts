import { spanOf } from '../http/moment-parameter.js';
import { answerPage } from './answer-page.js';
import { listingOf } from './listing.js';
import { managementApi } from './management-api.js';
import type { Operation } from './operation.js';

/** GET /audit-events (specification, section 4.11): a production tenant also sees the events of its sandboxes. */
export const listAuditEvents: Operation = {
  method: 'GET',
  path: '/api/audit-events',
  guard: managementApi('audit-events:read'),
  handle: (call, state) => {
    const { from, to } = spanOf(call.query, 'happened_from', 'happened_to');
    const events = state.management.events(call.tenant, state.keys.tenants).filter(({ happened_at }) => {
      const at = Date.parse(happened_at);
      return at >= from && at < to;
    });
    return answerPage(call, listingOf(`audit-events ${from} ${to}`, events), state, { maxLimit: 1000 });
  },
};

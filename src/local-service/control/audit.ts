import { z } from 'zod';
import { defaultTenant } from '../default-tenant.js';
import { type Control, checked } from './control.js';

const body = z.strictObject({
  tenant: z.string().default(defaultTenant),
  events: z.array(
    z.strictObject({
      happened_at: z.iso.datetime({ offset: true }),
      event_type: z.string().default(':service.test/happened'),
      object_id: z.string().default('obj-test'),
    }),
  ),
});

/** Adds audit events at given times, so that a test can let events come late. */
export const addAuditEvents: Control = {
  method: 'POST',
  path: 'audit',
  lasting: true,
  handle: (given, { state }) => {
    const { tenant, events } = checked(body, given);
    const management = state.management.of(tenant);
    const actor = { id: 'usr-control', name: 'Control', originIp: '127.0.0.1', userAgent: 'control' };
    for (const { happened_at, event_type, object_id } of events) {
      management.record(event_type, { id: object_id }, actor, Date.parse(happened_at));
    }
    return { added: events.length };
  },
};

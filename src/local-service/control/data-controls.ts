import { z } from '../../core/zod.js';
import { usualDay } from '../data/population.js';
import { notFound } from '../http/response.js';
import { defaultTenant } from '../keys/key-store.js';
import { lasting, passing } from './control.js';

const tenantName = z.string().default(defaultTenant);

/** Makes an index of these records; it replaces an index of the same name. */
const setProfiles = passing(
  'POST profiles',
  z.strictObject({
    index: z.string().min(1),
    tenant: tenantName,
    filterable: z.array(z.string()).default([]),
    /** A string is JSON text and served unchanged; any other value is served as its JSON. */
    records: z.array(z.unknown()),
  }),
  ({ index, tenant, filterable, records }, state) => {
    const texts = records.map((record) => (typeof record === 'string' ? record : JSON.stringify(record)));
    return state.data(tenant).record(index, filterable, texts, state.clock.now());
  },
);

/** Removes an index that was set with records; a generated index of the same name shows again. */
const forgetProfiles = passing(
  'DELETE profiles',
  z.strictObject({ index: z.string(), tenant: tenantName }),
  ({ index, tenant }, state) => {
    if (!state.data(tenant).forget(index)) throw notFound(`no records were set for an index ${index}`);
  },
);

const share = z.number().min(0).max(1);

/** Lets days pass for the data, not for the clock. */
const changeData = lasting(
  'POST change',
  z.strictObject({
    days: z.int().min(1).max(3660).default(1),
    updated: share.default(usualDay.updated),
    inserted: share.default(usualDay.inserted),
    deleted: share.default(usualDay.deleted),
    /** The tenant whose changes are reported; the days pass for every tenant. */
    tenant: tenantName,
  }),
  ({ days, tenant, ...shares }, state) => {
    const changed = state.change(Array(days).fill(shares), tenant);
    return { days: state.days.length, ...changed };
  },
);

/** Enables or disables a tenant's real-time features, or shows or hides one segment (specification, section 1). */
const setRealtime = lasting(
  'POST realtime',
  z.union([
    z.strictObject({ tenant: tenantName, enabled: z.boolean() }),
    z.strictObject({ tenant: tenantName, segment: z.string(), exists: z.boolean() }),
  ]),
  (request, state) => {
    const realtime = state.realtime.of(request.tenant);
    if ('enabled' in request) realtime.enabled = request.enabled;
    else if (!realtime.setSegment(request.segment, request.exists)) {
      throw notFound(`there never was a real-time segment ${request.segment}`);
    }
    return { enabled: realtime.enabled, segments: realtime.segments.map(({ id }) => id) };
  },
);

/** Adds audit events with these times, so that a test can let events arrive late. */
const addAuditEvents = lasting(
  'POST audit',
  z.strictObject({
    tenant: tenantName,
    events: z.array(
      z.strictObject({
        happened_at: z.iso.datetime({ offset: true }),
        event_type: z.string().default(':service.test/happened'),
        object_id: z.string().default('obj-test'),
      }),
    ),
  }),
  ({ tenant, events }, state) => {
    const management = state.management.of(tenant);
    const actor = { id: 'usr-control', name: 'Control', originIp: '127.0.0.1', userAgent: 'control' };
    for (const { happened_at, event_type, object_id } of events) {
      management.record(event_type, { id: object_id }, actor, Date.parse(happened_at));
    }
    return { added: events.length };
  },
);

/** Change the data that the service returns. */
export const dataControls = [setProfiles, forgetProfiles, changeData, setRealtime, addAuditEvents];

import { z } from 'zod';
import { defaultTenant } from '../default-tenant.js';
import { notFound } from '../http/service-error.js';
import { type Control, checked } from './control.js';

const tenant = z.string().default(defaultTenant);
const body = z.union([
  z.strictObject({ tenant, enabled: z.boolean() }),
  z.strictObject({ tenant, segment: z.string(), exists: z.boolean() }),
]);

/** Enables or disables a tenant's real-time features, or shows or hides one segment (specification, section 1). */
export const setRealtime: Control = {
  method: 'POST',
  path: 'realtime',
  lasting: true,
  handle: (given, { state }) => {
    const request = checked(body, given);
    const realtime = state.realtime.of(request.tenant);
    if ('enabled' in request) realtime.enabled = request.enabled;
    else if (!realtime.setSegment(request.segment, request.exists)) {
      throw notFound(`there never was a real-time segment ${request.segment}`);
    }
    return { enabled: realtime.enabled, segments: realtime.segments.map(({ id }) => id) };
  },
};

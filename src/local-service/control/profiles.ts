import { z } from 'zod';
import { defaultTenant } from '../default-tenant.js';
import { notFound } from '../http/service-error.js';
import { type Control, checked } from './control.js';

const body = z.strictObject({
  index: z.string().min(1),
  tenant: z.string().default(defaultTenant),
  filterable: z.array(z.string()).default([]),
  /** A string is JSON text and served unchanged; any other value is served as its JSON. */
  records: z.array(z.unknown()),
});

/** Gives the tenant an index of given records; it replaces an index of the same name. */
export const setProfiles: Control = {
  method: 'POST',
  path: 'profiles',
  handle: (given, { state }) => {
    const { index, tenant, filterable, records } = checked(body, given);
    const texts = records.map((record) => (typeof record === 'string' ? record : JSON.stringify(record)));
    return state.data(tenant).record(index, filterable, texts, state.clock.now());
  },
};

const which = z.strictObject({ index: z.string(), tenant: z.string().default(defaultTenant) });

/** Removes an index of given records; a generated index of the same name shows again. */
export const forgetProfiles: Control = {
  method: 'DELETE',
  path: 'profiles',
  handle: (given, { state }) => {
    const { index, tenant } = checked(which, given);
    if (!state.data(tenant).forget(index)) throw notFound(`no records were given for an index ${index}`);
  },
};

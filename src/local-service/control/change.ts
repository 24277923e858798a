import { z } from 'zod';
import { usualDay } from '../data/moment.js';
import { defaultTenant } from '../default-tenant.js';
import { type Control, checked } from './control.js';

const share = z.number().min(0).max(1);
const body = z.strictObject({
  days: z.int().min(1).max(3660).default(1),
  updated: share.default(usualDay.updated),
  inserted: share.default(usualDay.inserted),
  deleted: share.default(usualDay.deleted),
  /** The tenant whose changes are reported; the days pass for every tenant. */
  tenant: z.string().default(defaultTenant),
});

/** Lets days pass for the data, not for the clock. */
export const changeData: Control = {
  method: 'POST',
  path: 'change',
  lasting: true,
  handle: (given, { state }) => {
    const { days, tenant, ...shares } = checked(body, given);
    const changed = state.change(
      Array.from({ length: days }, () => shares),
      tenant,
    );
    return { days: state.days.length, ...changed };
  },
};

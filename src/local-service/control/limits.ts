import { z } from 'zod';
import { type Control, checked } from './control.js';

const limit = z.int().min(0).optional();
const group = z.enum(['profile', 'management', 'realtime']);
const body = z.strictObject({
  profile: limit,
  management: limit,
  realtime: limit,
  /** Groups in which each sandbox has a budget of its own. */
  sandboxes_apart: z.array(group).default([]),
});

/** Sets how many requests a second pass; budgets begin again. */
export const setLimits: Control = {
  method: 'POST',
  path: 'limits',
  handle: (given, { state }) => {
    const { sandboxes_apart: apart, ...limits } = checked(body, given);
    const set = Object.entries(limits).filter(([, requests]) => requests !== undefined);
    return { ...state.limits.set(Object.fromEntries(set), apart), sandboxes_apart: apart };
  },
};

import { z } from 'zod';
import { faultSchema } from '../faults/fault.js';
import { type Control, checked } from './control.js';

/** Sets a fault. */
export const setFault: Control = {
  method: 'POST',
  path: 'faults',
  handle: (given, { state }) => {
    const fault = checked(faultSchema, given);
    if (fault.kind === 'dead_token' && fault.issued_before_now) state.pageTokens.expireAll();
    return state.faults.set(fault);
  },
};

export const showFaults: Control = {
  method: 'GET',
  path: 'faults',
  handle: (_, { state }) => ({ faults: state.faults.reports }),
};

const which = z.strictObject({ id: z.int().optional() });

/** Clears the fault with an id, or every fault. */
export const clearFaults: Control = {
  method: 'DELETE',
  path: 'faults',
  handle: (given, { state }) => state.faults.clear(checked(which, given).id),
};

import { ServiceError } from '../http/service-error.js';
import type { Control } from './control.js';

/** Writes the state file now; the service also writes it after every lasting change. */
export const saveState: Control = {
  method: 'POST',
  path: 'state/save',
  handle: async (_, context) => {
    if (!(await context.save())) throw new ServiceError(409, 'the service was started without a state file');
  },
};

import { z } from 'zod';
import { type Control, checked } from './control.js';

const body = z.strictObject({ advance_ms: z.int() });

const shown = (now: number) => ({ now: new Date(now).toISOString() });

/** Moves the service's time of day forward, or back by a negative amount. */
export const moveTime: Control = {
  method: 'POST',
  path: 'time',
  lasting: true,
  handle: (given, { state }) => {
    state.clock.advance(checked(body, given).advance_ms);
    return shown(state.clock.now());
  },
};

export const showTime: Control = { method: 'GET', path: 'time', handle: (_, { state }) => shown(state.clock.now()) };

import { z } from '../../core/zod.js';
import { faultSchema } from '../faults/fault.js';
import { badRequest, ServiceError } from '../http/response.js';
import { emptyBody, lasting, passing } from './control.js';

const setFault = passing('POST faults', faultSchema, (fault, state) => {
  if (fault.kind === 'dead_token' && fault.issued_before_now) state.pageTokens.expireAll();
  return state.faults.set(fault);
});

const showFaults = passing('GET faults', emptyBody, (_, state) => ({ faults: state.faults.reports }));

/** Clears the fault with an id, or every fault. */
const clearFaults = passing('DELETE faults', z.strictObject({ id: z.int().optional() }), ({ id }, state) =>
  state.faults.clear(id),
);

const limit = z.int().min(0).max(1_000_000).optional();

/** Sets how many requests a second pass; budgets begin again. */
const setLimits = passing(
  'POST limits',
  z.strictObject({
    profile: limit,
    management: limit,
    realtime: limit,
    /** Groups in which each sandbox has its own budget. */
    sandboxes_apart: z.array(z.enum(['profile', 'management', 'realtime'])).default([]),
  }),
  ({ sandboxes_apart: apart, ...limits }, state) => {
    const set = Object.entries(limits).filter(([, requests]) => requests !== undefined);
    return { ...state.limits.set(Object.fromEntries(set), apart), sandboxes_apart: apart };
  },
);

const showStats = passing('GET stats', emptyBody, (_, { stats, limits }) => ({
  ...stats.report(),
  peak_per_second: limits.peaks(),
}));

/** Sets all counts to zero. */
const resetStats = passing('POST stats/reset', emptyBody, (_, { stats, limits }) => {
  stats.reset();
  limits.resetPeaks();
});

const shownTime = (nowMs: number) => ({ now: new Date(nowMs).toISOString() });

/** Moves the service's time of day forward, or back by a negative amount. */
const moveTime = lasting('POST time', z.strictObject({ advance_ms: z.int() }), ({ advance_ms }, { clock }) => {
  const year = new Date(clock.now() + advance_ms).getUTCFullYear();
  if (!(year >= 1970 && year <= 9999)) throw badRequest('the time must stay between 1970 and 9999');
  clock.advance(advance_ms);
  return shownTime(clock.now());
});

const showTime = passing('GET time', emptyBody, (_, { clock }) => shownTime(clock.now()));

/** Writes the state file now; the service also writes it after every lasting change. */
const saveState = passing('POST state/save', emptyBody, async (_, _state, context) => {
  if (!(await context.save())) throw new ServiceError(409, 'the service was started without a state file');
});

/** Change how the service behaves, and show its counts. */
export const behaviourControls = [
  setFault,
  showFaults,
  clearFaults,
  setLimits,
  showStats,
  resetStats,
  moveTime,
  showTime,
  saveState,
];

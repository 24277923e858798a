import type { Control } from './control.js';

export const showStats: Control = {
  method: 'GET',
  path: 'stats',
  handle: (_, { state }) => ({ ...state.stats.report(), peak_per_second: state.limits.peaks() }),
};

/** Sets all counts to zero. */
export const resetStats: Control = {
  method: 'POST',
  path: 'stats/reset',
  handle: (_, { state }) => {
    state.stats.reset();
    state.limits.resetPeaks();
  },
};

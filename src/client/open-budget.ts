import { systemClock } from '../core/clock.js';
import type { Budget } from './budget.js';
import { ProcessBudget } from './process-budget.js';

/** Creates the budget of a program. All engines that get the same budget together keep within one limit. */
export function openBudget(): Budget {
  return new ProcessBudget(systemClock);
}

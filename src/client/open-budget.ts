import { systemClock } from '../core/clock.js';
import type { Budget } from './budget.js';
import { ProcessBudget } from './process-budget.js';

/** The budget of a program: the engines that are given the same one send no more than one limit allows. */
export function openBudget(): Budget {
  return new ProcessBudget(systemClock);
}

import { systemClock } from '../core/clock.js';
import type { BudgetOptions } from '../core/service-options.js';
import type { Budget } from './budget.js';
import { MachineBudget } from './machine-budget.js';
import { ProcessBudget } from './process-budget.js';

/**
 * Creates the budget of a program. All engines that get the same budget together keep within one limit.
 *
 * @param options `shared: 'machine'`, the default: other processes of this user on this machine keep within it too. `'none'`: nobody else
 * @param notice told once if other processes cannot be found
 */
export function openBudget(
  { shared }: BudgetOptions = { shared: 'machine' },
  notice: (line: string) => void = () => undefined,
): Budget {
  return shared === 'none' ? new ProcessBudget(systemClock) : new MachineBudget(systemClock, notice);
}

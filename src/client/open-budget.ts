import { systemClock } from '../core/clock.js';
import type { BudgetOptions } from '../core/service-options.js';
import type { Budget } from './budget.js';
import { FleetBudget } from './fleet-budget.js';
import { MachineBudget } from './machine-budget.js';
import { ProcessBudget } from './process-budget.js';

/**
 * Creates the budget of a program. All engines that get the same budget together keep within one limit.
 *
 * @param options `shared: 'machine'`, the default: other processes of this user on this machine keep within it too; a database:
 *   all processes that name it. `'none'`: nobody else
 * @param notice told if other processes cannot be found
 */
export function openBudget(
  { shared }: BudgetOptions = { shared: 'machine' },
  notice: (line: string) => void = () => undefined,
): Budget {
  if (shared === 'none') return new ProcessBudget(systemClock);
  return shared === 'machine'
    ? new MachineBudget(systemClock, notice)
    : new FleetBudget(systemClock, shared.postgres, notice);
}

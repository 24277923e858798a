import type { Budget } from '../client/budget.js';
import { openBudget } from '../client/open-budget.js';
import type { EngineOptions } from '../engine/open-engine.js';
import type { Output } from './output.js';

let budget: Budget | undefined;

/** What a command opens an engine with. All engines of the process have one budget, which ends with the process. */
export function engineOptions({ signal }: Pick<EngineOptions, 'signal'>, output: Output): EngineOptions {
  budget ??= openBudget();
  return { signal, notice: (line) => output.notice(line), budget };
}

import type { Budget } from '../client/budget.js';
import { openBudget } from '../client/open-budget.js';
import type { ServiceOptions } from '../core/service-options.js';
import type { EngineOptions } from '../engine/open-engine.js';
import type { Output } from './output.js';

let budget: Budget | undefined;

/** The options with which a command opens an engine. All engines of the process share one budget, which ends with it. */
export function engineOptions(
  { signal }: Pick<EngineOptions, 'signal'>,
  output: Output,
  service: ServiceOptions | undefined,
): EngineOptions {
  const notice = (line: string) => output.notice(line);
  budget ??= openBudget(service?.budget, notice);
  return {
    signal,
    notice,
    budget,
    hinted: (hint, job) => output.hint(hint, job),
    failed: (error) => output.cause(error),
  };
}

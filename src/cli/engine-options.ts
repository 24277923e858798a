import type { ServiceConfig } from '../config/config.js';
import type { EngineOptions } from '../engine/open-engine.js';
import type { Budget } from '../rate-limit/budget.js';
import { openBudget } from '../rate-limit/open-budget.js';
import { closeAtEnd } from './interruption.js';
import type { Output } from './output.js';

/** A command whose user waits for its response gives up this soon if the service is away. */
const maxPatienceMs = 20_000;

let budget: Budget | undefined;

/** The options with which a command opens an engine. All engines of a command share one budget, which ends with it. */
export function engineOptions(
  { signal }: Pick<EngineOptions, 'signal'>,
  output: Output,
  service: ServiceConfig | undefined,
): EngineOptions {
  const notice = (line: string) => output.notice(line);
  if (budget === undefined) {
    const opened = openBudget(service?.budget, notice);
    budget = opened;
    // Without that, the next command would wait for permits that this one no longer uses.
    closeAtEnd(() => {
      budget = undefined;
      return opened.close();
    });
  }
  return {
    signal,
    notice,
    detail: (line) => output.detail(line),
    budget,
    hinted: (hint, job) => output.hint(hint, job),
    failed: (error) => output.cause(error),
    showsValues: output.showsValues,
  };
}

/** The same for a command whose user waits for its response. */
export function inquiryOptions(...args: Parameters<typeof engineOptions>): EngineOptions {
  return { ...engineOptions(...args), maxPatienceMs };
}

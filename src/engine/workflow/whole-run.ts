import type { SendOptions, ServiceClient } from '../../api/client.js';
import { getWorkflowRunOperation, readWorkflowRun, type WorkflowRun } from '../../api/management-api.js';
import { asCdsyncError } from '../../core/errors.js';

/** The newer state of a run, with what only the earlier one has: an absent field never replaces a known one. */
export function withKnown(earlier: WorkflowRun, newer: WorkflowRun): WorkflowRun {
  const told = Object.entries(newer).filter(([, value]) => value !== undefined && value !== null);
  return { ...earlier, ...Object.fromEntries(told), id: newer.id };
}

/**
 * A run with what the overview may leave out: error, tasks, who has started it. If the service refuses the verbose view, the
 * run stays as it is and a notice says so: a run that has ended must not fail because nobody can tell why it did.
 */
export async function readWhole(
  client: ServiceClient,
  run: WorkflowRun,
  options: SendOptions & { readonly notice: (line: string) => void },
): Promise<WorkflowRun> {
  try {
    return withKnown(run, await client.send(getWorkflowRunOperation(run.id, 'verbose'), readWorkflowRun, options));
  } catch (thrown) {
    options.notice(`the details of run ${run.id} cannot be read: ${asCdsyncError(thrown).message}`);
    return run;
  }
}

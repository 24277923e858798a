import type { SendOptions, ServiceClient } from '../../api/client.js';
import { getWorkflowRunOperation, readWorkflowRun, type WorkflowRun } from '../../api/management-api.js';
import { asCdsyncError, CdsyncError } from '../../core/errors.js';
import { printable } from '../../core/printable.js';
import { isUnfinishedRun, plainState } from '../../sources/workflow-runs.js';

/** Whether a run has ended, in whatever state. */
export function hasEnded(run: WorkflowRun): boolean {
  return !isUnfinishedRun(run);
}

export function hasSucceeded({ state }: WorkflowRun): boolean {
  return plainState(state ?? '') === 'succeeded';
}

function causeOf({ error, task_instances: instances }: WorkflowRun): WorkflowRun['error'] {
  return error ?? instances?.find((task) => task.error)?.error;
}

/** Why a run has not succeeded: the service's type, message and attribution; never its `data`. */
function reasonOf(run: WorkflowRun): string {
  const cause = causeOf(run);
  if (!cause) return 'the service gives no reason';
  const { type, message, attribution } = cause;
  const parts = [type, message].filter((part) => typeof part === 'string' && part !== '').map(String);
  const whose = attribution ? ` (attribution: ${attribution})` : '';
  return printable(`${parts.join(': ') || 'the service gives no reason'}${whose}`);
}

function hintOf(run: WorkflowRun): string {
  const attribution = causeOf(run)?.attribution?.toLowerCase();
  if (attribution === 'customer') return 'the cause lies in the data or settings of the tenant: correct it there';
  if (attribution === 'platform') return 'the cause lies in the service: run again, or report it to its operator';
  return `for all of it: cdsync workflow status ${run.id} --view verbose`;
}

/** @throws {CdsyncError} `workflow_failed` unless the run has succeeded */
export function requireSuccess(run: WorkflowRun, name: string): void {
  if (hasSucceeded(run)) return;
  const state = plainState(printable(run.state ?? 'unknown'));
  const verb = state === 'failed' ? 'failed' : `ended as ${state}`;
  throw new CdsyncError(`workflow ${name} ${verb} (run ${run.id}): ${reasonOf(run)}`, {
    code: 'workflow_failed',
    hint: hintOf(run),
  });
}

/** The newer state of a run. A field that it lacks keeps the earlier value. */
export function mergeRun(earlier: WorkflowRun, newer: WorkflowRun): WorkflowRun {
  const present = Object.entries(newer).filter(([, value]) => value !== undefined && value !== null);
  return { ...earlier, ...Object.fromEntries(present), id: newer.id };
}

/**
 * A run with fields that the overview may leave out: error, tasks, principal. If the service refuses the verbose view, the run
 * stays as it is, with a notice: an ended run must not fail because its details are missing.
 */
export async function readDetails(
  client: ServiceClient,
  run: WorkflowRun,
  options: SendOptions & { readonly notice: (line: string) => void },
): Promise<WorkflowRun> {
  try {
    return mergeRun(run, await client.send(getWorkflowRunOperation(run.id, 'verbose'), readWorkflowRun, options));
  } catch (thrown) {
    options.notice(`the details of run ${run.id} cannot be read: ${asCdsyncError(thrown).message}`);
    return run;
  }
}

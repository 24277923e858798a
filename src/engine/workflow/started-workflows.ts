import { rm } from 'node:fs/promises';
import { z } from 'zod';
import { ServiceError } from '../../client/client.js';
import {
  getWorkflowRunOperation,
  readWorkflowRun,
  type StartWorkflowRequest,
  type WorkflowRun,
} from '../../client/management-api.js';
import type { JobLayout } from '../../store/layout.js';
import { readStateIfUsable, writeStateFile } from '../../store/state-file.js';
import type { RunContext } from '../run-context.js';
import { hasEnded, hasSucceeded } from './follow-workflow.js';
import { newMeter } from './start-workflow.js';

const startedSchema = z.object({
  /** Its place in `before:`. */
  step: z.number().int(),
  /** The request, as JSON. */
  request: z.string(),
  id: z.string(),
  started_at: z.string(),
});
type Started = z.infer<typeof startedSchema>;

const fileSchema = z.object({ version: z.literal(1), runs: z.array(startedSchema) });

/** A workflow that a run of this job started before it was killed. */
export interface LeftWorkflow {
  readonly run: WorkflowRun;
  readonly startedAtMs: number;
}

/** Empty if the file cannot be read: then the run starts its workflows as usual. */
async function readStarted(layout: JobLayout): Promise<readonly Started[]> {
  return (await readStateIfUsable(layout.startedWorkflows, fileSchema))?.runs ?? [];
}

/** Remembers a started run, so that after a crash the next run follows it instead of starting a second one. */
export async function rememberStarted(
  { layout, clock }: Pick<RunContext, 'layout' | 'clock'>,
  step: number,
  request: StartWorkflowRequest,
  { id }: WorkflowRun,
): Promise<void> {
  const others = (await readStarted(layout)).filter((each) => each.step !== step);
  const started = { step, request: JSON.stringify(request), id, started_at: new Date(clock.now()).toISOString() };
  await writeStateFile(layout.startedWorkflows, { version: 1, runs: [...others, started] });
}

/** Call it when a run ends normally: the next one starts its workflows anew. */
export async function forgetStarted(layout: JobLayout): Promise<void> {
  await rm(layout.startedWorkflows, { force: true });
}

/**
 * The workflow run of a step that a run that was cut short has left: it runs still, or has succeeded meanwhile. Undefined
 * if the step must be started.
 * @throws {CdsyncError} errors of the service
 */
export async function leftWorkflow(
  {
    layout,
    clock,
    client,
    signal,
    job,
    full,
  }: Pick<RunContext, 'layout' | 'clock' | 'client' | 'signal' | 'job' | 'full'>,
  step: number,
  request: StartWorkflowRequest,
): Promise<LeftWorkflow | undefined> {
  if (full) return undefined;
  const wanted = JSON.stringify(request);
  const found = (await readStarted(layout)).find((each) => each.step === step && each.request === wanted);
  const startedAtMs = Date.parse(found?.started_at ?? '');
  if (found === undefined || !(clock.now() - startedAtMs <= job.resumeWithinMs)) return undefined;
  try {
    const run = await client.send(getWorkflowRunOperation(found.id), readWorkflowRun, { signal, meter: newMeter() });
    return hasEnded(run) && !hasSucceeded(run) ? undefined : { run, startedAtMs };
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'not_found') return undefined;
    throw error;
  }
}

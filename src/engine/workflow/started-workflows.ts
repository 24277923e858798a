import { rm } from 'node:fs/promises';
import { ServiceError } from '../../api/client.js';
import {
  getWorkflowRunOperation,
  readWorkflowRun,
  type StartWorkflowRequest,
  type WorkflowRun,
} from '../../api/management-api.js';
import { readStateFile, type StateFile, writeStateFile } from '../../core/durable.js';
import { CdsyncError } from '../../core/errors.js';
import { fullTime } from '../../core/quantities.js';
import { z } from '../../core/zod.js';
import type { JobLayout } from '../../storage/layout.js';
import type { RunContext } from '../run-context.js';
import { hasEnded, hasSucceeded } from './ended-run.js';
import { newMeter, type StartRecord } from './start-workflow.js';

const askedSchema = z.object({
  /** Its place in `before:`. */
  step: z.number().int(),
  /** The request, as JSON. */
  request: z.string(),
  started_at: z.string(),
});
const startedSchema = askedSchema.extend({ id: z.string() });
/** A start whose run is unknown: the response was lost, or the process was killed before it arrived. */
const attemptSchema = askedSchema.extend({ listed: z.array(z.string()) });
const markSchema = z.object({ config_id: z.string(), principal_id: z.string(), name: z.string() });

const fileSchema = z.object({
  version: z.literal(1),
  runs: z.array(startedSchema),
  attempts: z.array(attemptSchema).default([]),
  /** Principal and name of the runs of each configuration. */
  marks: z.array(markSchema).default([]),
});
type WorkflowsFile = z.infer<typeof fileSchema>;

type Place = Pick<RunContext, 'layout' | 'clock' | 'job' | 'full'>;

const workflowsFile: StateFile<WorkflowsFile> = {
  schema: fileSchema,
  hint: 'see whether a workflow that this job has started still runs, then remove the file: the next run starts its workflows',
};

/** @throws {CdsyncError} `state_unreadable`: a workflow that runs could be started a second time */
async function readFile(layout: JobLayout): Promise<WorkflowsFile> {
  const state = await readStateFile(layout.startedWorkflows, workflowsFile);
  return state ?? { version: 1, runs: [], attempts: [], marks: [] };
}

async function change(layout: JobLayout, by: (file: WorkflowsFile) => Partial<WorkflowsFile>): Promise<void> {
  const file = await readFile(layout);
  const next = { ...file, ...by(file) };
  const isEmpty = next.runs.length === 0 && next.attempts.length === 0 && next.marks.length === 0;
  if (isEmpty) await rm(layout.startedWorkflows, { force: true });
  else await writeStateFile(layout.startedWorkflows, next);
}

/** A request as the file has it. Version 0.1.0 wrote the times of a range as the user did. */
function requestText(request: StartWorkflowRequest): string {
  return JSON.stringify(request, (name, value: unknown) => {
    return typeof value === 'string' && name.startsWith('range') ? (fullTime(value) ?? value) : value;
  });
}

/** The entry of a step, unless it is too old, or its request was another one. */
function entryOf<T extends z.infer<typeof askedSchema>>(
  entries: readonly T[],
  { clock, job, full }: Place,
  step: number,
  request: StartWorkflowRequest,
): { entry: T; at: number } | undefined {
  if (full) return undefined;
  const wanted = requestText(request);
  const entry = entries.find((entry) => entry.step === step && sameRequest(entry.request, wanted));
  if (entry === undefined) return undefined;
  const at = Date.parse(entry.started_at);
  return Math.abs(clock.now() - at) <= job.resumeWithinMs ? { entry, at } : undefined;
}

function sameRequest(stored: string, wanted: string): boolean {
  try {
    return requestText(JSON.parse(stored) as StartWorkflowRequest) === wanted;
  } catch {
    return false;
  }
}

function withoutStep<T extends { step: number }>(entries: readonly T[], step: number): T[] {
  return entries.filter((entry) => entry.step !== step);
}

/** Remembers a started run, so that after a crash the next run follows it instead of starting a second one. */
export async function rememberStarted(
  { layout, clock }: Pick<Place, 'layout' | 'clock'>,
  step: number,
  request: StartWorkflowRequest,
  { id }: WorkflowRun,
): Promise<void> {
  const started = { step, request: requestText(request), id, started_at: new Date(clock.now()).toISOString() };
  await change(layout, ({ runs, attempts }) => ({
    runs: [...withoutStep(runs, step), started],
    attempts: withoutStep(attempts, step),
  }));
}

/** Remembers the principal and name of a configuration's run, if the service has returned both. */
export async function rememberMark(
  layout: JobLayout,
  configId: string,
  { principal_id: principal, name }: WorkflowRun,
): Promise<void> {
  if (!principal || !name) return;
  const mark = { config_id: configId, principal_id: principal, name };
  await change(layout, ({ marks }) => ({ marks: [...marks.filter((mark) => mark.config_id !== configId), mark] }));
}

/** The stored state of a step's start. */
export async function startRecordOf(place: Place, step: number, request: StartWorkflowRequest): Promise<StartRecord> {
  const { layout } = place;
  const { attempts, marks } = await readFile(layout);
  const mark = marks.find(({ config_id }) => config_id === request.configId);
  const left = entryOf(attempts, place, step, request);
  return {
    mark: mark && { principalId: mark.principal_id, name: mark.name },
    attempt: left && { at: left.at, listed: left.entry.listed },
    attempted: ({ at, listed }) => {
      const entry = {
        step,
        request: requestText(request),
        started_at: new Date(at).toISOString(),
        listed: [...listed],
      };
      return change(layout, (file) => ({ attempts: [...withoutStep(file.attempts, step), entry] }));
    },
    startedNothing: () => change(layout, (file) => ({ attempts: withoutStep(file.attempts, step) })),
  };
}

/** Call it when a run ends normally: the next one starts its workflows again. Starts with an unknown result stay, and a damaged file. */
export async function forgetStarted(layout: JobLayout): Promise<void> {
  await change(layout, () => ({ runs: [] })).catch((error: unknown) => {
    if (!(error instanceof CdsyncError && error.code === 'state_unreadable')) throw error;
  });
}

/**
 * The workflow run that an interrupted run has started for a step, if it still runs or has succeeded. Undefined if the step must be
 * started.
 * @throws {CdsyncError} errors of the service
 */
export async function unfinishedWorkflow(
  context: Place & Pick<RunContext, 'client' | 'signal'>,
  step: number,
  request: StartWorkflowRequest,
): Promise<{ readonly run: WorkflowRun; readonly startedAtMs: number } | undefined> {
  const { layout, client, signal } = context;
  const left = entryOf((await readFile(layout)).runs, context, step, request);
  if (left === undefined) return undefined;
  const { entry, at: startedAtMs } = left;
  try {
    const run = await client.send(getWorkflowRunOperation(entry.id), readWorkflowRun, { signal, meter: newMeter() });
    return hasEnded(run) && !hasSucceeded(run) ? undefined : { run, startedAtMs };
  } catch (error) {
    if (error instanceof ServiceError && error.code === 'not_found') return undefined;
    throw error;
  }
}

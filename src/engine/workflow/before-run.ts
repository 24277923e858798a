import type { BeforeStep } from '../../config/config.js';
import { asCdsyncError } from '../../core/errors.js';
import { readHeld } from '../../storage/held.js';
import { Journal } from '../../storage/journal.js';
import { readRun } from '../../storage/run-state.js';
import { runFolders } from '../../storage/storage.js';
import type { StreamOutcome } from '../report-job.js';
import type { RunContext } from '../run-context.js';
import { requireSuccess } from './ended-run.js';
import { followWorkflow } from './follow-workflow.js';
import { startWorkflow } from './start-workflow.js';
import { rememberMark, rememberStarted, startRecordOf, unfinishedWorkflow } from './started-workflows.js';

/** Whether this run resumes an earlier run of the job that was interrupted while reading. */
export async function resumesRun({
  layout,
  job,
  clock,
  full,
  only,
}: Pick<RunContext, 'layout' | 'job' | 'clock' | 'full' | 'only'>): Promise<boolean> {
  if (full) return false;
  for (const runId of await runFolders(layout)) {
    if ((await readRun(layout, runId)) === undefined) continue;
    for (const { name, reads } of job.streams) {
      if (only?.includes(name) === false) continue;
      if (reads.open === undefined || (await readHeld(layout, runId, name)) !== undefined) continue;
      const journal = await Journal.readUsable(layout.streamRun(runId, name));
      if (journal === undefined || journal.failed !== undefined) continue;
      if (Math.abs(clock.now() - Date.parse(journal.start.started_at)) <= job.resumeWithinMs) return true;
    }
  }
  return false;
}

async function runWorkflow(context: RunContext, step: number, { startWorkflow: options }: BeforeStep): Promise<void> {
  const { deadlineMs, ...request } = options;
  const name = request.configId;
  const left = await unfinishedWorkflow(context, step, request);
  if (left !== undefined) {
    context.notice(`workflow ${name}: following run ${left.run.id}, which an interrupted run has started`);
    const remainingMs = deadlineMs - (context.clock.now() - left.startedAtMs);
    requireSuccess(await followWorkflow(context, left.run, { name, deadlineMs: remainingMs }), name);
    return;
  }
  const record = await startRecordOf(context, step, request);
  const attempted: typeof record.attempted = async (attempt) => {
    await record.attempted(attempt);
    // If another machine takes this run over, it must know of the attempt.
    await context.bucket?.checkpoint();
  };
  const run = await startWorkflow(context, request, { ...record, attempted });
  await rememberStarted(context, step, request, run);
  await context.bucket?.checkpoint();
  const ended = await followWorkflow(context, run, { name, deadlineMs });
  await rememberMark(context.layout, name, ended);
  requireSuccess(ended, name);
}

/**
 * Does the steps of a job before its streams (`before:`), one after the other. A run that resumes an interrupted one does not repeat
 * them: its checkpoints follow the earlier steps. If a step fails, every stream is skipped with the reason.
 */
export async function beforeRun(
  context: RunContext,
  streams: readonly { readonly outcome: StreamOutcome }[],
): Promise<void> {
  const { before } = context.job;
  if (await resumesRun(context)) {
    context.notice('this run resumes an interrupted one: its workflows are not started again (--full starts them)');
    return;
  }
  context.progress.phase = 'preparing';
  try {
    for (const [step, command] of before.entries()) await runWorkflow(context, step, command);
  } catch (thrown) {
    for (const { outcome } of streams) {
      outcome.error = asCdsyncError(thrown);
      outcome.skipped = true;
    }
  }
}

import { ServiceError } from '../../api/client.js';
import {
  getWorkflowRunOperation,
  readWorkflowRun,
  stopWorkflowOperation,
  type WorkflowRun,
} from '../../api/management-api.js';
import { abortAfter } from '../../core/clock.js';
import { asCdsyncError, CdsyncError, interrupted, reworded } from '../../core/errors.js';
import { printable } from '../../core/printable.js';
import { formatDuration } from '../../core/quantities.js';
import { isUnfinishedRun } from '../../sources/workflow-runs.js';
import { hasEnded, mergeRun, readDetails } from './ended-run.js';
import { newMeter, type WorkflowContext } from './start-workflow.js';

/** Requested soon at first, then less often: all clients together get 10 requests a second from the Management API. */
const firstDelayMs = 500;
const maxDelayMs = 15_000;
const delayGrowth = 1.5;
/** The longest time between two lines, even if nothing changes. */
const lineEveryMs = 60_000;
/** The longest that the request to stop may take while the process ends. */
const stopMs = 10_000;
/** The longest that a run may be unknown after its start. */
const appearsMs = 60_000;
/** The longest that the details of a run that has ended are waited for. */
const detailsMs = 30_000;

interface FollowOptions {
  /** Name of the workflow in the lines. */
  readonly name: string;
  /** Milliseconds from now; then the run is stopped. */
  readonly deadlineMs: number;
  /** Called with each state of the run. */
  onRun?(run: WorkflowRun): void;
}

function tasks({ task_instances: instances }: WorkflowRun): string {
  if (!instances || instances.length === 0) return '';
  const done = instances.filter((task) => !isUnfinishedRun(task)).length;
  return `, ${done} of ${instances.length} tasks done`;
}

/** Follows one run to its end. */
class Follower {
  readonly #context: WorkflowContext;
  readonly #options: FollowOptions;
  readonly #began: number;
  #run: WorkflowRun;
  #lastLine = '';
  #lastLineAt = 0;
  #troubled = false;
  /** Whether the service has shown the run by its id. */
  #isSeen = false;

  constructor(context: WorkflowContext, run: WorkflowRun, options: FollowOptions) {
    this.#context = context;
    this.#options = options;
    this.#run = run;
    this.#began = context.clock.monotonic();
  }

  get #elapsed(): number {
    return this.#context.clock.monotonic() - this.#began;
  }

  async toTheEnd(): Promise<WorkflowRun> {
    const { clock, signal } = this.#context;
    for (let delay = firstDelayMs; ; delay = Math.min(delay * delayGrowth, maxDelayMs)) {
      this.#report();
      if (hasEnded(this.#run)) return this.#withDetails();
      if (signal.aborted) await this.#stopFor(interrupted(signal.reason));
      const left = this.#options.deadlineMs - this.#elapsed;
      if (left <= 0) await this.#stopFor(this.#tooLate());
      // An abort only ends the sleep: the next round stops the run.
      await clock.sleep(Math.min(delay, left), signal).catch(() => undefined);
      await this.#look(this.#options.deadlineMs - this.#elapsed);
    }
  }

  async #look(left: number): Promise<void> {
    const { client, signal, notice } = this.#context;
    if (signal.aborted || left <= 0) return;
    const timed = AbortSignal.any([signal, abortAfter(left)]);
    try {
      const operation = getWorkflowRunOperation(this.#run.id);
      const seen = await client.send(operation, readWorkflowRun, { signal: timed, meter: newMeter() });
      this.#show(seen);
      this.#isSeen = true;
      this.#troubled = false;
    } catch (thrown) {
      const error = asCdsyncError(thrown);
      if (error.kind === 'interrupted') return;
      // The workflow runs on without cdsync, so a passing failure is no reason to stop: only the deadline is.
      if (error.kind !== 'retryable' && !this.#mayAppear(error)) throw this.#lost(error);
      if (!this.#troubled) notice(`workflow ${this.#options.name}: ${error.message}; still trying`);
      this.#troubled = true;
    }
  }

  /** A deployment may know a run only some time after it has answered that it started it. */
  #mayAppear({ code }: CdsyncError): boolean {
    return code === 'not_found' && !this.#isSeen && this.#elapsed < appearsMs;
  }

  #show(seen: WorkflowRun): void {
    this.#run = mergeRun(this.#run, seen);
    this.#options.onRun?.(this.#run);
  }

  /** Only the verbose view shows why a run has failed. */
  #withDetails(): Promise<WorkflowRun> {
    const { client, signal, notice } = this.#context;
    const timed = AbortSignal.any([signal, abortAfter(detailsMs)]);
    return readDetails(client, this.#run, { signal: timed, meter: newMeter(), notice });
  }

  #report(): void {
    const { name } = this.#options;
    const line = `workflow ${name}: run ${this.#run.id} ${printable(this.#run.state ?? 'in an unknown state')}${tasks(this.#run)}`;
    if (line === this.#lastLine && this.#elapsed - this.#lastLineAt < lineEveryMs) return;
    this.#lastLine = line;
    this.#lastLineAt = this.#elapsed;
    this.#context.notice(`${line}, ${formatDuration(this.#elapsed)}`);
  }

  async #stopFor(error: CdsyncError): Promise<never> {
    const stopped = await stopWorkflow(this.#context, this.#run.id, this.#options.name);
    if (stopped !== undefined) this.#show(stopped);
    throw error;
  }

  #tooLate(): CdsyncError {
    const { name, deadlineMs } = this.#options;
    return new CdsyncError(
      `workflow ${name} did not end within ${formatDuration(deadlineMs)} (run ${this.#run.id}, ${this.#run.state ?? 'in an unknown state'})`,
      {
        code: 'workflow_deadline',
        hint: 'cdsync asked the service to stop the run; raise the deadline, or find out why it takes longer',
      },
    );
  }

  #lost(error: CdsyncError): CdsyncError {
    return reworded(error, `workflow ${this.#options.name} cannot be followed: ${error.message}`, {
      hint: `run ${this.#run.id} continues in the service: cdsync workflow status ${this.#run.id}`,
      cause: error,
      requestId: error.requestId,
    });
  }
}

/**
 * Asks the service to stop a run. Does not throw, because the process may be ending: a failure becomes a notice.
 * @returns the run after that
 */
async function stopWorkflow(
  { client, notice }: WorkflowContext,
  id: string,
  name: string,
): Promise<WorkflowRun | undefined> {
  try {
    const options = { signal: abortAfter(stopMs), meter: newMeter() };
    const run = await client.send(stopWorkflowOperation(id), readWorkflowRun, options);
    notice(`workflow ${name}: run ${id} is being stopped, ${printable(run.state ?? 'in an unknown state')}`);
    return run;
  } catch (error) {
    const over = error instanceof ServiceError && error.status === 409;
    const reason = over ? 'it has ended already' : asCdsyncError(error).message;
    notice(
      `workflow ${name}: run ${id} could not be stopped: ${reason}${over ? '' : `; try: cdsync workflow stop ${id}`}`,
    );
    return undefined;
  }
}

/**
 * Follows a run until it has ended, and writes a line now and then. At the deadline, or when the user asks to stop, it
 * stops the run in the service too.
 * @returns the run as it ended, whether it succeeded or not
 * @throws {CdsyncError} `workflow_deadline`, `interrupted`, and errors of the service that no retry helps
 */
export function followWorkflow(
  context: WorkflowContext,
  run: WorkflowRun,
  options: FollowOptions,
): Promise<WorkflowRun> {
  return new Follower(context, run, options).toTheEnd();
}

import { type ServiceClient, ServiceError } from '../../client/client.js';
import {
  getWorkflowRunOperation,
  readWorkflowRun,
  readWorkflowRuns,
  type StartWorkflowRequest,
  startWorkflowOperation,
  type WorkflowRun,
  workflowRunsPageOperation,
} from '../../client/management-api.js';
import type { Clock } from '../../core/clock.js';
import { CdsyncError } from '../../core/errors.js';

/** What every function for workflows needs. */
export interface WorkflowContext {
  readonly client: ServiceClient;
  readonly clock: Clock;
  /** Aborts when the user asks to stop. */
  readonly signal: AbortSignal;
  readonly notice: (line: string) => void;
}

/** If the user asks to stop during a start, this is how long to wait for its answer: only a known run can be stopped. */
const graceMs = 5_000;
/** How far back the list of runs is read to find new ones; clocks must differ by less. */
const listedMs = 86_400_000;
/** After a lost answer, cdsync reads the list after each of these waits: a run may be listed late. */
const looksAfterMs = [1_000, 3_000, 6_000];
const maxStarts = 3;
/** More pages than the runs of a day fill. */
const maxPages = 1_000;

/** A meter for requests of workflows: they count in no stream's report. */
export function newMeter() {
  return { requests: 0, retries: 0, throttled: 0, bytes: 0 };
}

/** A signal that aborts `graceMs` after the given one. */
function withGrace(signal: AbortSignal): { signal: AbortSignal; release(): void } {
  const late = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const begin = () => {
    timer = setTimeout(() => late.abort(), graceMs);
  };
  if (signal.aborted) late.abort();
  else signal.addEventListener('abort', begin, { once: true });
  return {
    signal: late.signal,
    release: () => {
      signal.removeEventListener('abort', begin);
      clearTimeout(timer);
    },
  };
}

/** Whether the service may have started the workflow, although it did not answer. */
function mayHaveStarted(error: unknown): error is ServiceError {
  const surelyNot = new Set(['unreachable', 'too_many_requests']);
  return error instanceof ServiceError && error.kind === 'retryable' && !surelyNot.has(error.code);
}

/** Starts one workflow (specification, section 4.11), once even if an answer is lost. */
class WorkflowStart {
  readonly #context: WorkflowContext;
  readonly #request: StartWorkflowRequest;
  readonly #listedFrom: string;
  #known: ReadonlySet<string> = new Set();

  constructor(context: WorkflowContext, request: StartWorkflowRequest) {
    this.#context = context;
    this.#request = request;
    this.#listedFrom = new Date(context.clock.now() - listedMs).toISOString();
  }

  async run(): Promise<WorkflowRun> {
    this.#known = new Set((await this.#listed()).map(({ id }) => id));
    for (let starts = 1; ; starts += 1) {
      try {
        return await this.#post();
      } catch (error) {
        if (!mayHaveStarted(error)) throw error;
        this.#context.notice(`workflow ${this.#request.configId}: the answer was lost; looking whether it has started`);
        const found = await this.#find();
        if (found !== undefined) return found;
        if (starts === maxStarts) throw error;
      }
    }
  }

  async #post(): Promise<WorkflowRun> {
    const late = withGrace(this.#context.signal);
    try {
      const operation = startWorkflowOperation(this.#request);
      return await this.#context.client.send(operation, readWorkflowRun, { signal: late.signal, meter: newMeter() });
    } finally {
      late.release();
    }
  }

  /** The runs of the last day. */
  async #listed(): Promise<WorkflowRun[]> {
    const { client, signal } = this.#context;
    const runs: WorkflowRun[] = [];
    let nextToken: string | null = null;
    for (let pages = 0; pages < maxPages; pages += 1) {
      const operation = workflowRunsPageOperation({ createdFrom: this.#listedFrom, nextToken });
      const page: Awaited<ReturnType<typeof readWorkflowRuns>> = await client.send(operation, readWorkflowRuns, {
        signal,
        meter: newMeter(),
      });
      runs.push(...page.data);
      // A list that leads to the same page again has no more runs.
      if (page.nextToken === null || page.nextToken === nextToken) break;
      nextToken = page.nextToken;
    }
    return runs;
  }

  /** The run that the lost answer was about, if there is one. @throws {CdsyncError} `workflow_unclear` */
  async #find(): Promise<WorkflowRun | undefined> {
    const { clock, signal } = this.#context;
    for (const wait of looksAfterMs) {
      await clock.sleep(wait, signal);
      const fresh = (await this.#listed()).filter(({ id }) => !this.#known.has(id));
      const unclear: WorkflowRun[] = [];
      for (const run of fresh) {
        const { configId } = this.#request;
        const isOurs = isRunOf(run, configId) ?? isRunOf(await this.#whole(run), configId);
        if (isOurs) return run;
        if (isOurs === undefined) unclear.push(run);
      }
      if (unclear.length > 0) throw this.#unclear(unclear);
    }
    return undefined;
  }

  /** A run with its tasks. */
  #whole({ id }: WorkflowRun): Promise<WorkflowRun> {
    const { client, signal } = this.#context;
    return client.send(getWorkflowRunOperation(id, 'verbose'), readWorkflowRun, { signal, meter: newMeter() });
  }

  #unclear(runs: readonly WorkflowRun[]): CdsyncError {
    const ids = runs.map(({ id }) => id).join(', ');
    return new CdsyncError(
      `the answer to the start of workflow ${this.#request.configId} was lost, and the service does not say whose run ${ids} is`,
      {
        code: 'workflow_unclear',
        hint: `look at it: cdsync workflow status ${runs[0]?.id}; it was not started again. When it has ended, run again`,
      },
    );
  }
}

/**
 * Whether a run belongs to a configuration; undefined if the service does not tell. The published facts name only the
 * workflow of its tasks: the same id proves it, but another one proves nothing, for it may be an id of another kind.
 */
function isRunOf({ config_id: config, task_instances: tasks }: WorkflowRun, configId: string): boolean | undefined {
  if (typeof config === 'string') return config === configId;
  return tasks?.some(({ workflow_id: workflow }) => workflow === configId) ? true : undefined;
}

/**
 * Starts a workflow and returns its run. If the answer is lost, it looks for a new run of the same configuration, and
 * starts the workflow again only if there is none.
 * @throws {CdsyncError} `workflow_unclear` if it may have started and nobody can tell; errors of the service; `interrupted`
 */
export function startWorkflow(context: WorkflowContext, request: StartWorkflowRequest): Promise<WorkflowRun> {
  return new WorkflowStart(context, request).run();
}

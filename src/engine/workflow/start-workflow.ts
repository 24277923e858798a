import { type SendOptions, type ServiceClient, ServiceError } from '../../api/client.js';
import {
  readWorkflowRun,
  readWorkflowRuns,
  type StartWorkflowRequest,
  startWorkflowOperation,
  type WorkflowRun,
  workflowRunsPageOperation,
} from '../../api/management-api.js';
import { type Clock, callAfter } from '../../core/clock.js';
import { CdsyncError } from '../../core/errors.js';
import { hasEnded, readDetails } from './ended-run.js';

/** The clients whose service knows the path without its trailing slash. */
const plain = new WeakSet<ServiceClient>();

/** Whether a router may have refused the path. Such a response starts nothing. */
function mayBeOtherPath(error: unknown): error is ServiceError {
  return error instanceof ServiceError && (error.status === 404 || error.status === 405);
}

/**
 * Requests the start of a workflow, once. The specification writes the path with a trailing slash, other published examples without
 * one, and a strict router refuses the wrong path with 404 or 405. Then the other path is tried, and remembered for this client.
 * @throws {CdsyncError} errors of the client
 */
async function postStart(
  client: ServiceClient,
  request: StartWorkflowRequest,
  options: SendOptions,
): Promise<WorkflowRun> {
  const post = (spelling: 'slash' | 'plain') =>
    client.send(startWorkflowOperation(request, spelling), readWorkflowRun, options);
  if (plain.has(client)) return post('plain');
  try {
    return await post('slash');
  } catch (first) {
    if (!mayBeOtherPath(first)) throw first;
    try {
      const run = await post('plain');
      plain.add(client);
      return run;
    } catch (second) {
      if (!mayBeOtherPath(second)) plain.add(client);
      // A 405 is the router's; the 404 of the right path names the missing object.
      throw mayBeOtherPath(second) && (second.status === 405 || first.status === 404) ? first : second;
    }
  }
}

/** The input of all functions for workflows. */
export interface WorkflowContext {
  readonly client: ServiceClient;
  readonly clock: Clock;
  /** Aborts when the user asks to stop. */
  readonly signal: AbortSignal;
  readonly notice: (line: string) => void;
}

/** The principal and name of a configuration's runs, learned from one that is certainly its own. */
interface WorkflowOwner {
  /** The principal that starts its runs. */
  readonly principalId: string;
  readonly name: string;
}

/** A requested start whose run is unknown. */
export interface StartAttempt {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Ids of the runs that were listed before it. */
  readonly listed: readonly string[];
}

/** The state of a start on disk, so that no later process starts a workflow twice. */
export interface StartRecord {
  /** The mark of earlier runs of this configuration; undefined if there is none yet. */
  readonly mark: WorkflowOwner | undefined;
  /** A start by an earlier process, with an unknown result. */
  readonly attempt: StartAttempt | undefined;
  /** Called before the start is requested; durable on return. */
  attempted(attempt: StartAttempt): Promise<void>;
  /** Called when it is certain that the attempt has started nothing. */
  startedNothing(): Promise<void>;
}

const noRecord: StartRecord = {
  mark: undefined,
  attempt: undefined,
  attempted: async () => undefined,
  startedNothing: async () => undefined,
};

/** If the user asks to stop during a start, how long to wait for its response: only a known run can be stopped. */
const graceMs = 5_000;
/** How far back the list of runs is read to find new ones; clocks must differ by less. */
const listedMs = 86_400_000;
/** After a lost response, cdsync reads the list after each of these waits: a run may be listed late. */
const looksAfterMs = [1_000, 3_000, 6_000, 20_000, 30_000];
const looksMs = looksAfterMs.reduce((sum, wait) => sum + wait, 0);
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
  let cancel = () => {};
  const begin = () => {
    cancel = callAfter(graceMs, () => late.abort());
  };
  if (signal.aborted) late.abort();
  else signal.addEventListener('abort', begin, { once: true });
  return {
    signal: late.signal,
    release: () => {
      signal.removeEventListener('abort', begin);
      cancel();
    },
  };
}

/** Whether the service may have started the workflow, although no response arrived. */
function mayHaveStarted(error: unknown): boolean {
  const surelyNot = new Set(['unreachable', 'too_many_requests']);
  if (!(error instanceof CdsyncError)) return false;
  if (error.kind === 'interrupted') return true;
  return error instanceof ServiceError && error.kind === 'retryable' && !surelyNot.has(error.code);
}

/**
 * Whether a run belongs to this configuration. The service names neither the configuration nor the request of a run, so principal and
 * name are compared with those of an earlier run; `unclear` without one, or if only one of them is equal.
 */
export function ownerOf(
  { principal_id: principal, name }: WorkflowRun,
  mark: WorkflowOwner | undefined,
): 'ours' | 'other' | 'unclear' {
  if (mark === undefined || !principal || !name) return 'unclear';
  const [samePrincipal, sameName] = [principal === mark.principalId, name === mark.name];
  if (samePrincipal !== sameName) return 'unclear';
  return samePrincipal ? 'ours' : 'other';
}

/** Starts one workflow (specification, section 4.11), once even if a response is lost. */
class WorkflowStart {
  readonly #context: WorkflowContext;
  readonly #request: StartWorkflowRequest;
  readonly #record: StartRecord;

  constructor(context: WorkflowContext, request: StartWorkflowRequest, record: StartRecord) {
    this.#context = context;
    this.#request = request;
    this.#record = record;
  }

  async run(): Promise<WorkflowRun> {
    const { clock } = this.#context;
    const { attempt } = this.#record;
    if (attempt !== undefined) {
      this.#notify('an interrupted run requested its start; looking whether it has started');
      const run = await this.#find(attempt, 'earlier');
      if (run !== undefined) return run;
      this.#notify('it has no unfinished run: starting it');
    }
    const at = clock.now();
    const listed = (await this.#listed(at)).map(({ id }) => id);
    await this.#record.attempted({ at, listed });
    for (let starts = 1; ; starts += 1) {
      try {
        return await this.#post();
      } catch (error) {
        if (!mayHaveStarted(error)) {
          await this.#record.startedNothing();
          throw error;
        }
        if ((error as CdsyncError).kind === 'interrupted') throw error;
        this.#notify('the response was lost; looking whether it has started');
        const run = await this.#find({ at, listed }, 'own');
        if (run !== undefined) return run;
        if (starts === maxStarts) throw error;
        this.#notify('no run has appeared: starting it again');
      }
    }
  }

  #notify(words: string): void {
    this.#context.notice(`workflow ${this.#request.configId}: ${words}`);
  }

  async #post(): Promise<WorkflowRun> {
    const late = withGrace(this.#context.signal);
    try {
      return await postStart(this.#context.client, this.#request, { signal: late.signal, meter: newMeter() });
    } finally {
      late.release();
    }
  }

  /** The runs of the day before a time, and those after it. */
  async #listed(at: number): Promise<WorkflowRun[]> {
    const { client, signal } = this.#context;
    const createdFrom = new Date(at - listedMs).toISOString();
    const runs: WorkflowRun[] = [];
    let nextToken: string | null = null;
    for (let pages = 0; pages < maxPages; pages += 1) {
      const operation = workflowRunsPageOperation({ createdFrom, nextToken });
      const page: Awaited<ReturnType<typeof readWorkflowRuns>> = await client.send(operation, readWorkflowRuns, {
        signal,
        meter: newMeter(),
      });
      runs.push(...page.data);
      // A list whose token repeats has no more runs.
      if (page.nextToken === null || page.nextToken === nextToken) break;
      nextToken = page.nextToken;
    }
    return runs;
  }

  /**
   * The one run that an attempt has surely started; undefined if it has started none that still runs.
   * @throws {CdsyncError} `workflow_unclear`
   */
  async #find(attempt: StartAttempt, whose: 'own' | 'earlier'): Promise<WorkflowRun | undefined> {
    const { clock, signal } = this.#context;
    const isOld = clock.now() - attempt.at >= looksMs;
    for (const wait of isOld ? [0] : looksAfterMs) {
      if (wait > 0) await clock.sleep(wait, signal);
      const runs = await this.#candidates(attempt);
      const [first, ...more] = runs.filter(({ owner }) => owner === 'ours');
      const unclear = runs.filter(({ owner }) => owner === 'unclear');
      if (first !== undefined && more.length === 0 && unclear.length === 0) return first.run;
      const candidates = [first, ...more, ...unclear].flatMap((candidate) =>
        candidate === undefined ? [] : [candidate.run],
      );
      // A run of an earlier process that has ended cannot run twice.
      const isSettled = whose === 'earlier' && candidates.every(hasEnded);
      if (candidates.length > 0 && !isSettled) throw this.#unclear(candidates);
    }
    return undefined;
  }

  /** The runs that were not listed before the attempt, each with its details. */
  async #candidates({ at, listed }: StartAttempt) {
    const { client, signal, notice } = this.#context;
    const before = new Set(listed);
    const fresh = (await this.#listed(at)).filter(({ id }) => !before.has(id));
    const options = { signal, meter: newMeter(), notice };
    return Promise.all(
      fresh.map(async (overview) => {
        const run = await readDetails(client, overview, options);
        return { run, owner: ownerOf(run, this.#record.mark) };
      }),
    );
  }

  #unclear(runs: readonly WorkflowRun[]): CdsyncError {
    const { configId } = this.#request;
    const ids = runs.map(({ id }) => id).join(', ');
    const one = runs.length === 1;
    return new CdsyncError(
      `the response to the start of workflow ${configId} was lost, and nothing proves that ${one ? `run ${ids}, begun since, is` : `one of the runs ${ids}, begun since, is`} its own`,
      {
        code: 'workflow_unclear',
        hint: `it was not started again. See who started it: cdsync workflow status ${runs[0]?.id} --view verbose. When ${one ? 'that run has' : 'those runs have'} ended, run again; --full starts it at once`,
      },
    );
  }
}

/**
 * Starts a workflow and returns its run. If the response is lost, it looks at the runs that have begun since. It returns the one that
 * is certainly its own, and starts the workflow again only if no run has appeared within a minute.
 * @param memory what earlier processes know of it; left out for a start that no later process asks about
 * @throws {CdsyncError} `workflow_unclear` if it is unknown whether it has started; errors of the service; `interrupted`
 */
export function startWorkflow(
  context: WorkflowContext,
  request: StartWorkflowRequest,
  record = noRecord,
): Promise<WorkflowRun> {
  return new WorkflowStart(context, request, record).run();
}

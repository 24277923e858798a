import { type SendOptions, type ServiceClient, ServiceError } from '../../api/client.js';
import {
  readWorkflowRun,
  readWorkflowRuns,
  type StartWorkflowRequest,
  startWorkflowOperation,
  type WorkflowRun,
  workflowRunsPageOperation,
} from '../../api/management-api.js';
import type { Clock } from '../../core/clock.js';
import { CdsyncError } from '../../core/errors.js';
import { hasEnded, readDetails } from './ended-run.js';

/** The clients whose service knows the path without its trailing slash. */
const plain = new WeakSet<ServiceClient>();

/** Whether a router may have refused the path. Such an answer starts nothing (published facts). */
function mayBeOtherPath(error: unknown): error is ServiceError {
  return error instanceof ServiceError && (error.status === 404 || error.status === 405);
}

/**
 * Asks for the start of a workflow, once. The specification writes the path with a trailing slash, other published examples
 * write it without one, and a strict router answers the wrong one with 404 or 405: then the other one is tried, and the
 * client remembers which was right.
 * @throws {CdsyncError} what the client throws
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
      // A 405 is the router's; the 404 of the right path says what is missing.
      throw mayBeOtherPath(second) && (second.status === 405 || first.status === 404) ? first : second;
    }
  }
}

/** What every function for workflows needs. */
export interface WorkflowContext {
  readonly client: ServiceClient;
  readonly clock: Clock;
  /** Aborts when the user asks to stop. */
  readonly signal: AbortSignal;
  readonly notice: (line: string) => void;
}

/** What tells the runs of a configuration from others, learned from one that is surely its own. */
interface WorkflowOwner {
  /** Who has started it. */
  readonly principalId: string;
  readonly name: string;
}

/** A start that was asked for, and whose run is not known. */
export interface StartAttempt {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Ids of the runs that were listed before it. */
  readonly listed: readonly string[];
}

/** What outlives the process, so that no later one starts a workflow again without knowing. */
export interface StartRecord {
  /** The mark of earlier runs of this configuration; undefined if there is none yet. */
  readonly mark: WorkflowOwner | undefined;
  /** A start of an earlier process that nobody knows the outcome of. */
  readonly attempt: StartAttempt | undefined;
  /** Called before the start is asked for; durable on return. */
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

/** If the user asks to stop during a start, this is how long to wait for its answer: only a known run can be stopped. */
const graceMs = 5_000;
/** How far back the list of runs is read to find new ones; clocks must differ by less. */
const listedMs = 86_400_000;
/** After a lost answer, cdsync reads the list after each of these waits: a run may be listed late. */
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
function mayHaveStarted(error: unknown): boolean {
  const surelyNot = new Set(['unreachable', 'too_many_requests']);
  if (!(error instanceof CdsyncError)) return false;
  if (error.kind === 'interrupted') return true;
  return error instanceof ServiceError && error.kind === 'retryable' && !surelyNot.has(error.code);
}

/**
 * Whose run it is. It names neither its configuration nor the request that has started it (published facts), so that only
 * the mark of an earlier run of the configuration proves anything; `unclear` without one, or if it fits in part.
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

/** Starts one workflow (specification, section 4.11), once even if an answer is lost. */
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
      this.#notify('a run that was cut short asked for its start; looking whether it has started');
      const found = await this.#find(attempt, 'earlier');
      if (found !== undefined) return found;
      this.#notify('no run of it is left: starting it');
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
        this.#notify('the answer was lost; looking whether it has started');
        const found = await this.#find({ at, listed }, 'own');
        if (found !== undefined) return found;
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
      // A list that leads to the same page again has no more runs.
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
      const found = await this.#candidates(attempt);
      const [first, ...more] = found.filter(({ owner }) => owner === 'ours');
      const unclear = found.filter(({ owner }) => owner === 'unclear');
      if (first !== undefined && more.length === 0 && unclear.length === 0) return first.run;
      const candidates = [first, ...more, ...unclear].flatMap((each) => (each === undefined ? [] : [each.run]));
      // A person has had the time to look at a run that an earlier process began. Once it has ended, nothing runs twice.
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
      `the answer to the start of workflow ${configId} was lost, and nothing proves that ${one ? `run ${ids}, begun since, is` : `one of the runs ${ids}, begun since, is`} its own`,
      {
        code: 'workflow_unclear',
        hint: `it was not started again. See who began it: cdsync workflow status ${runs[0]?.id} --view verbose. When ${one ? 'that run has' : 'those runs have'} ended, run again; --full starts it at once`,
      },
    );
  }
}

/**
 * Starts a workflow and returns its run. If the answer is lost, it looks at the runs that have begun since. It follows the
 * one that is surely its own, and starts the workflow again only if none has appeared within a minute.
 * @param memory what earlier processes know of it; left out for a start that no later process asks about
 * @throws {CdsyncError} `workflow_unclear` if it may have started and nobody can tell; errors of the service; `interrupted`
 */
export function startWorkflow(
  context: WorkflowContext,
  request: StartWorkflowRequest,
  record = noRecord,
): Promise<WorkflowRun> {
  return new WorkflowStart(context, request, record).run();
}

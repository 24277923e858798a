import pLimit from 'p-limit';
import type { AtOnce } from '../client/at-once.js';
import type { RequestMeter, ServiceClient } from '../client/client.js';
import type { Clock } from '../core/clock.js';
import type { Source } from '../streams/source.js';
import { PageChain } from './page-chain.js';
import type { ReadTask, TaskIntake } from './read-task.js';
import { type KnownRecords, RecordDetails } from './record-details.js';
import { taskFetcher } from './task-fetcher.js';

/** How many chunks of keys are read at once; their requests share the stream's concurrency. */
const chunksAtOnce = 4;

export interface TaskRunnerOptions {
  readonly source: Source;
  readonly client: ServiceClient;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly meter: RequestMeter;
  /** How many chains, and how many requests for single records, run at once. */
  readonly atOnce: AtOnce;
  /** For a list whose pages leave out details: what the last snapshot has of it. */
  readonly known: KnownRecords;
  readonly notice: (line: string) => void;
  intakeOf(task: ReadTask): TaskIntake;
}

/** Reads tasks of one stream, several at once. */
export class TaskRunner {
  readonly #options: TaskRunnerOptions;
  readonly #requestLimit: ReturnType<typeof pLimit>;
  readonly #details: RecordDetails | undefined;
  /** Page sizes that the service accepts, by the size first asked for. */
  readonly #pageSizes = new Map<number, { limit: number }>();

  constructor(options: TaskRunnerOptions) {
    this.#options = options;
    this.#requestLimit = pLimit(options.atOnce.count);
    const { source, known, notice } = options;
    const isDetailed = source.kind === 'windowed' && source.details !== undefined;
    this.#details = isDetailed ? new RecordDetails({ source, known, notice, limit: this.#requestLimit }) : undefined;
  }

  /** The present page size for a configured one. All tasks share it: if the service refuses it, it shrinks for all. */
  pageSize(asked: number): { limit: number } {
    const known = this.#pageSizes.get(asked) ?? { limit: asked };
    this.#pageSizes.set(asked, known);
    return known;
  }

  /**
   * Reads each task to its last page. After a failure, no other task begins, and running tasks are aborted.
   * @throws the error of the first task that failed; see {@link PageChain.read}
   */
  async run(tasks: readonly ReadTask[]): Promise<void> {
    const { source, atOnce, signal } = this.#options;
    const limit = pLimit(source.kind === 'keyed' ? chunksAtOnce : atOnce.count);
    const govern = source.kind === 'keyed' ? [this.#requestLimit] : [this.#requestLimit, limit];
    const ends = govern.map((each) => atOnce.govern(each));
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    const failures: unknown[] = [];
    const chains = tasks.map((task) =>
      limit(async () => {
        if (task.start.done || stop.signal.aborted) return;
        try {
          await this.#read(task, either);
        } catch (error) {
          failures.push(error);
          stop.abort();
        }
      }),
    );
    await Promise.all(chains);
    for (const end of ends) end();
    if (failures.length > 0) throw failures[0];
    signal.throwIfAborted();
  }

  #read(task: ReadTask, signal: AbortSignal): Promise<void> {
    const { source, client, clock, meter, intakeOf } = this.#options;
    const context = { client, clock, signal, meter, pageSize: this.pageSize(task.pageSize) };
    const fetcher = taskFetcher(task, source, context, this.#requestLimit, this.#details);
    return new PageChain(task, { fetcher, meter, intake: intakeOf(task) }).read();
  }
}

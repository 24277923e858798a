import pLimit from 'p-limit';
import { ServiceError } from '../api/client.js';
import type { ConcurrencyController } from '../rate-limit/concurrency.js';
import type { Source } from '../sources/source.js';
import { KeyedFetcher } from './keyed-fetcher.js';
import { PageChain, type PageSink, type ReadTask } from './page-chain.js';
import { type FetchContext, ListFetcher, type ListRequest, type PageFetcher } from './page-fetcher.js';
import { chunkOf } from './partition.js';
import { DetailedFetcher, RecordDetails, type StoredRecords } from './record-details.js';
import { windowFetcher } from './window-fetcher.js';

/**
 * Returns the fetcher for the pages of a task.
 * @param limit how many requests for single records may be under way at once, over all tasks of a stream
 * @param details completes the records of the stream, if its pages leave out fields
 */
function taskFetcher(
  { partition, filter }: ReadTask,
  source: Source,
  context: FetchContext,
  limit: ReturnType<typeof pLimit>,
  details: RecordDetails | undefined,
): PageFetcher {
  const { added } = source;
  if (source.kind === 'list') {
    const attributes = new Map(filter);
    const page = (request: ListRequest) => source.page({ ...request, filter: attributes, withTotal: false });
    return new ListFetcher(context, page, { added, takesLimit: true });
  }
  if (source.kind === 'keyed' && partition.kind === 'keys') {
    const requests = chunkOf(partition.chunk, source.requests);
    return new KeyedFetcher(context, requests, { mayMiss: source.mayMiss, limit });
  }
  if (source.kind === 'windowed' && partition.kind === 'window') {
    const pages = windowFetcher(context, source, { from: partition.from, to: partition.to });
    return details === undefined ? pages : new DetailedFetcher(context, pages, details);
  }
  if (partition.kind === 'record' && details !== undefined) {
    return { fetch: () => details.single(partition.key, context) };
  }
  const one = source.kind === 'windowed' ? source.one : undefined;
  if (partition.kind === 'record' && one !== undefined) {
    const { key } = partition;
    return new KeyedFetcher(context, [{ operation: () => one(key), returns: 'record', added }], {
      mayMiss: true,
      limit,
    });
  }
  throw new TypeError(`a ${source.kind} source has no partition of kind ${partition.kind}`);
}

/** How many chunks of keys are read at once; their requests share the stream's concurrency. */
const chunksAtOnce = 4;
/** How many chains of pages are open at once; the client limits the requests under way. */
const chainsAtOnce = 512;

interface TaskRunnerOptions extends Omit<FetchContext, 'pageSize'> {
  readonly source: Source;
  /** How many chains, and how many requests for single records, run at once. */
  readonly atOnce: ConcurrencyController;
  /** For a list whose pages leave out details: the last snapshot's records of it. */
  readonly known: StoredRecords;
  readonly notice: (line: string) => void;
  /** What messages call the partition of a task; undefined if it is the whole list. */
  labelOf(task: ReadTask): string | undefined;
  sinkOf(task: ReadTask): PageSink;
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
   * Reads each task to its last page. If requests of one task fail for good while others succeed, the others are read to their
   * end. After any other failure, no other task begins, and running tasks are aborted.
   * @throws the first error that is not of one task alone, else the first; see {@link PageChain.read}
   */
  async run(tasks: readonly ReadTask[]): Promise<void> {
    const { source, atOnce, signal } = this.#options;
    const limit = pLimit(source.kind === 'keyed' ? chunksAtOnce : chainsAtOnce);
    atOnce.expect(source.kind === 'keyed' ? source.requests.length : tasks.filter(({ start }) => !start.done).length);
    const end = atOnce.govern(this.#requestLimit);
    const stop = new AbortController();
    const either = AbortSignal.any([signal, stop.signal]);
    const failures: unknown[] = [];
    const failed: ReadTask[] = [];
    const chains = tasks.map((task) =>
      limit(async () => {
        if (task.start.done || stop.signal.aborted) return;
        try {
          await this.#read(task, either);
        } catch (error) {
          if (failures.length === 0 || !stop.signal.aborted) failures.push(error);
          // One address that keeps failing is no reason to leave the others unread: the next run then needs only that one.
          if (isOfOneTask(error)) failed.push(task);
          else stop.abort();
        }
      }),
    );
    await Promise.all(chains);
    end();
    if (failures.length > 0) throw this.#named(failures.find((error) => !isOfOneTask(error)) ?? failures[0], failed);
    signal.throwIfAborted();
  }

  /** The error of a task that failed alone, with the name of its partition. */
  #named(error: unknown, failed: readonly ReadTask[]): unknown {
    const [first, ...others] = failed;
    const label = first && this.#options.labelOf(first);
    if (!(error instanceof ServiceError && error.isSingle) || label === undefined) return error;
    const more = others.length === 0 ? '' : ` and ${others.length} more`;
    error.message = `${label}${more}: ${error.message}`;
    return error;
  }

  #read(task: ReadTask, signal: AbortSignal): Promise<void> {
    const { source, client, clock, meter, sinkOf } = this.#options;
    const context = { client, clock, signal, meter, pageSize: this.pageSize(task.pageSize) };
    const fetcher = taskFetcher(task, source, context, this.#requestLimit, this.#details);
    return new PageChain(task, { fetcher, meter, sink: sinkOf(task) }).read();
  }
}

function isOfOneTask(error: unknown): boolean {
  return error instanceof ServiceError && error.isSingle;
}

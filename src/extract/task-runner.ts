import pLimit from 'p-limit';
import { ServiceError } from '../api/client.js';
import { CdsyncError, type ErrorKind } from '../core/errors.js';
import { formatCounted, formatNames } from '../core/quantities.js';
import type { ConcurrencyController } from '../rate-limit/concurrency.js';
import type { Source } from '../sources/source.js';
import { KeyedFetcher, KeyRefusals } from './keyed-fetcher.js';
import { PageChain, type PageSink, type ReadTask } from './page-chain.js';
import { type FetchContext, ListFetcher, type ListRequest, type PageFetcher } from './page-fetcher.js';
import { chunkOf } from './partition.js';
import { DetailedFetcher, RecordDetails, type StoredRecords } from './record-details.js';
import { windowFetcher } from './window-fetcher.js';

/** What all tasks of a stream share. */
interface StreamRequests {
  /** How many requests for single records may be under way at once. */
  readonly limit: ReturnType<typeof pLimit>;
  /** Completes the records of the stream, if its pages leave out fields. */
  readonly details: RecordDetails | undefined;
  readonly refusals: KeyRefusals;
}

/** Returns the fetcher for the pages of a task. */
function taskFetcher(
  { partition, filter }: ReadTask,
  source: Source,
  context: FetchContext,
  { limit, details, refusals }: StreamRequests,
): PageFetcher {
  const { added } = source;
  if (source.kind === 'list') {
    const attributes = new Map(filter);
    const page = (request: ListRequest) => source.page({ ...request, filter: attributes, withTotal: false });
    return new ListFetcher(context, page, { added, takesLimit: true });
  }
  if (source.kind === 'keyed' && partition.kind === 'keys') {
    const requests = chunkOf(partition.chunk, source.requests);
    return new KeyedFetcher(context, requests, { mayMiss: source.mayMiss, limit, refusals });
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
      refusals,
    });
  }
  throw new TypeError(`a ${source.kind} source has no partition of kind ${partition.kind}`);
}

/** The most refused ids that a notice shows. */
const maxShownKeys = 20;
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
  /** Whether notices may show ids. */
  readonly showsValues: boolean;
  /** What messages call the partition of a task; undefined if it is the whole list. */
  labelOf(task: ReadTask): string | undefined;
  sinkOf(task: ReadTask): PageSink;
}

/** Reads tasks of one stream, several at once. */
export class TaskRunner {
  readonly #options: TaskRunnerOptions;
  readonly #requestLimit: ReturnType<typeof pLimit>;
  readonly #details: RecordDetails | undefined;
  readonly #refusals = new KeyRefusals();
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
    const requested = this.#pageSizes.get(asked) ?? { limit: asked };
    this.#pageSizes.set(asked, requested);
    return requested;
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
    const failures: Failure[] = [];
    const unfinished = new Set(tasks.filter(({ start }) => !start.done));
    const chains = tasks.map((task) =>
      limit(async () => {
        if (task.start.done || stop.signal.aborted) return;
        try {
          await this.#read(task, either);
          unfinished.delete(task);
        } catch (error) {
          if (failures.length === 0 || !stop.signal.aborted) failures.push({ error, task });
          // One address that keeps failing is no reason to leave the others unread: the next run then needs only that one.
          if (!isOfOneTask(error)) stop.abort();
        }
      }),
    );
    await Promise.all(chains);
    end();
    this.#noteRefusals();
    const failure = failures.find(({ error }) => !isOfOneTask(error)) ?? failures[0];
    if (failure !== undefined) {
      // Of an outage that left every partition unread, the name of one says nothing.
      const isOfAll = unfinished.size === tasks.length && tasks.length > 1;
      const others = isOfOneTask(failure.error) ? failures.length - 1 : unfinished.size - 1;
      throw this.#named(failure, { others, isOfAll });
    }
    signal.throwIfAborted();
  }

  #noteRefusals(): void {
    const { keys, lastStatus } = this.#refusals;
    if (keys.length === 0) return;
    const { notice, showsValues } = this.#options;
    const shown = keys.flatMap((key) => (key === null ? [] : JSON.stringify(key)));
    const names = showsValues && shown.length > 0 ? `: ${formatNames(shown, maxShownKeys)}` : '';
    notice(
      `the service refuses ${formatCounted(keys.splice(0).length, 'id')} (${lastStatus}), which become rejects${names}`,
    );
  }

  /** The error of a task, with the name of its partition, and with how many others were not read. */
  #named(
    { error, task }: Failure,
    { others, isOfAll }: { readonly others: number; readonly isOfAll: boolean },
  ): unknown {
    const label = this.#options.labelOf(task);
    if (!(error instanceof CdsyncError) || label === undefined || unnamedKinds.has(error.kind)) return error;
    const isOutage = error instanceof ServiceError && error.kind === 'retryable' && !error.isSingle;
    if (isOutage && isOfAll) return error;
    const more = others > 0 && (isOutage || isOfOneTask(error)) ? ` and ${others} more` : '';
    error.message = `${label}${more}: ${error.message}`;
    return error;
  }

  #read(task: ReadTask, signal: AbortSignal): Promise<void> {
    const { source, client, clock, meter, sinkOf } = this.#options;
    const context = { client, clock, signal, meter, pageSize: this.pageSize(task.pageSize) };
    const fetcher = taskFetcher(task, source, context, {
      limit: this.#requestLimit,
      details: this.#details,
      refusals: this.#refusals,
    });
    return new PageChain(task, { fetcher, meter, sink: sinkOf(task) }).read();
  }
}

/** Why a task was not read to its end. */
interface Failure {
  readonly error: unknown;
  readonly task: ReadTask;
}

/** Errors of the key, the configuration or the user: no partition has anything to do with them. */
const unnamedKinds: ReadonlySet<ErrorKind> = new Set(['auth', 'configuration', 'interrupted']);

function isOfOneTask(error: unknown): boolean {
  return error instanceof ServiceError && error.isSingle;
}

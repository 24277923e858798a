import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import pLimit from 'p-limit';
import { countLeaves } from '../columns/columns.js';
import { abortAfter } from '../core/clock.js';
import { type ErrorKind, errorType } from '../core/error-codes.js';
import { asCdsyncError, CdsyncError, interrupted, reworded } from '../core/errors.js';
import { formatCounted, inSeconds } from '../core/quantities.js';
import type { Connector, DestinationContext } from '../sdk/destination.js';
import { wantsMemory } from '../sdk/duckdb/errors.js';
import { reachingMs } from '../sdk/silence.js';
import { type Feed, localFiles, readFeed } from '../snapshot/feed.js';
import { rowSizesOf } from '../snapshot/large-rows.js';
import { Database, type Session } from '../storage/duckdb.js';
import { readErasures } from '../storage/erasures.js';
import { JobLock } from '../storage/job-lock.js';
import { withRowsOf } from '../storage/large-rows.js';
import { deliveryShare } from '../storage/memory-plan.js';
import { sharesOf } from '../storage/memory-shares.js';
import { checkRules } from './check-destination.js';
import { guardConnector } from './connector-guard.js';
import {
  cutShort,
  type Delivered,
  type DeliveryContext,
  type DeliveryProgress,
  type DeliveryRequest,
  destinationContext,
  nothingPublished,
  type StreamDelivery,
  type StreamTask,
} from './delivery.js';
import { lastErasure, rememberBegin, rememberDelivery, rememberOwed, workFolder } from './delivery-state.js';
import { FileDelivery } from './files/file-delivery.js';
import { RecordDelivery } from './records/record-delivery.js';
import { AwayForLong } from './records/record-sender.js';
import { TableDelivery } from './table/table-delivery.js';

/** Whether an error says why a table was not touched. */
export function isRefusedDelivery({ code }: CdsyncError): boolean {
  return errorType(code).refusesTable ?? false;
}

const attempts = 5;
const firstDelayMs = 1_000;
const maxDelayMs = 30_000;
/** How long an interrupted delivery may take to ask the destination for its state. */
const askingMs = 10_000;

/** The delivery of one stream, in attempts that are repeated until one succeeds. */
interface Attempts {
  attempt(options: DestinationContext): Promise<Delivered>;
  /** After an interruption: the rows that the destination has taken; undefined if there are none. */
  taken(options: DestinationContext): Promise<Delivered | undefined>;
  readonly table: string | undefined;
  /** Whether a load that may have been committed leaves something to remove. */
  readonly owes?: boolean;
  /** False until the destination has responded to the present attempt: some connectors connect with their first statement. */
  readonly isReached?: boolean;
}

/** Kinds of a failure to open the destination with which it fails for the next stream, too. */
const ofAllStreams: ReadonlySet<ErrorKind> = new Set(['retryable', 'auth', 'configuration']);

/** The delivery to one destination, under its lock. */
class Delivering {
  readonly #context: DeliveryContext;
  readonly #request: DeliveryRequest;
  readonly #progress: readonly DeliveryProgress[];
  readonly #database: Database;
  readonly #folder: string;
  /** Sessions stage rows in parallel, and commit one after the other. */
  readonly #inTurn = pLimit(1);
  /** How many streams are delivered in parallel at most, and how many are now. */
  #sessions: number;
  #present = 1;
  /** Of the connector, for the present streams. */
  #memoryMb = 0;
  /** Of the present streams, where their rows are largest. */
  #rowBytes = 0;
  #rowsTogether: number | undefined;
  /** Whether its streams have all memory, one after the other: a share of it was too little. */
  #hasAll = false;
  /** Whether the present streams would have more memory then. */
  #mayHaveMore = false;
  /** The errors with which the destination could not be opened, or reached. */
  readonly #openFailures = new WeakSet<CdsyncError>();
  /** Why no stream can be delivered: the destination could not be opened for an earlier one. */
  #outage: CdsyncError | undefined;

  constructor(
    context: DeliveryContext,
    request: DeliveryRequest,
    database: Database,
    progress: readonly DeliveryProgress[],
  ) {
    this.#database = database;
    this.#context = context;
    this.#request = request;
    this.#progress = progress;
    this.#folder = workFolder(context.layout, request.destination.name);
    const { connector } = request.destination;
    this.#sessions = connector.kind === 'tables' ? (connector.capabilities.sessions ?? 1) : 1;
  }

  /** The first stream alone finds whether the destination can be reached, and makes what all of them need there. */
  async all(): Promise<StreamDelivery[]> {
    const { streams } = this.#request;
    // An interrupted delivery leaves its files.
    await rm(this.#folder, { recursive: true, force: true });
    const ended = new Map<string, StreamDelivery>();
    try {
      for (let waiting = streams; waiting.length > 0; waiting = streams.filter((stream) => !ended.has(stream))) {
        const present = waiting.slice(0, ended.size === 0 ? 1 : this.#sessions);
        for (const delivered of await this.#atOnce(present))
          if (delivered !== undefined) ended.set(delivered.stream, delivered);
      }
      return streams.flatMap((stream) => ended.get(stream) ?? []);
    } finally {
      await rm(this.#folder, { recursive: true, force: true });
    }
  }

  /** Delivers streams when the memory that their columns need is free. */
  async #atOnce(streams: readonly string[]): Promise<(StreamDelivery | undefined)[]> {
    const { resources, layout, shares } = this.#context;
    const { memory, destinations } = shares ?? { memory: sharesOf(resources), destinations: 1 };
    // A stream that has no feed, or a broken one, says so itself.
    const feeds = await Promise.all(streams.map((stream) => readFeed(layout, stream).catch(() => undefined)));
    const leaves = feeds.reduce((sum, feed) => sum + (feed === undefined ? 0 : countLeaves(feed.columns)), 0);
    const { options, kind } = this.#request.destination.connector;
    await this.#measureRows(feeds);
    const rows = { leaves, rowBytes: this.#rowBytes };
    const besides = { ...rows, destinations, hasOwn: 'memory_mb' in options, sorts: kind === 'files' };
    const alone = { ...besides, destinations: 1 };
    const share = deliveryShare(resources, this.#hasAll ? alone : besides);
    this.#mayHaveMore = streams.length > 1 || deliveryShare(resources, alone).ownMb > share.ownMb;
    return memory.within(share.takenMb, async () => {
      this.#memoryMb = share.connectorMb;
      this.#present = streams.length;
      await this.#database.resize({ threads: share.threads, memoryMb: share.ownMb, isShare: true });
      return Promise.all(streams.map((stream) => this.#stream(stream)));
    });
  }

  async #measureRows(feeds: readonly (Feed | undefined)[]): Promise<void> {
    const files = feeds.map((feed) => (feed === undefined ? [] : localFiles(this.#context.layout, feed)));
    const session = await this.#database.connect();
    // The delivery reports a damaged file.
    const none = { largest: 0, together: undefined };
    const sizes = await Promise.all(files.map((paths) => rowSizesOf(session, paths).catch(() => none)));
    session.close();
    this.#rowBytes = Math.max(0, ...sizes.map(({ largest }) => largest));
    const few = sizes.flatMap(({ together }) => together ?? []);
    this.#rowsTogether = few.length === 0 ? undefined : Math.min(...few);
  }

  /** @returns undefined if it had no session, or too little memory, beside others: it is delivered alone then */
  async #stream(stream: string): Promise<StreamDelivery | undefined> {
    const { clock } = this.#context;
    const began = clock.monotonic();
    const progress = this.#progressOf(stream);
    const ended = (
      status: StreamDelivery['status'],
      error: CdsyncError | undefined,
      delivered: Partial<Delivered> = {},
    ): StreamDelivery => {
      progress.phase = status === 'failed' ? 'failed' : 'done';
      const seconds = inSeconds(clock.monotonic() - began);
      const { action = 'nothing', why = '', rows = 0, refused = 0, waiting = 0, variants = [], files } = delivered;
      const result = { action, why, rows, refused, waiting, seconds, variants, ...(files !== undefined && { files }) };
      return { name: this.#request.destination.name, stream, status, ...result, error };
    };
    if (this.#outage !== undefined)
      return ended('not_tried', reworded(this.#outage, this.#outage.message, { hint: this.#outage.hint, stream }));
    try {
      const delivered = await this.#newest(stream, progress);
      if (delivered === undefined) return ended('not_tried', nothingPublished(stream));
      if (delivered.isCutShort) return ended('partial', cutShort(stream), delivered);
      if (delivered.problem !== undefined) return ended('partial', delivered.problem, delivered);
      if ((delivered.waiting ?? 0) > 0)
        return ended('partial', this.#recordsWait(stream, delivered.waiting ?? 0), delivered);
      if (delivered.newlyRefused === 0) return ended('ok', undefined, delivered);
      return ended('partial', this.#valuesRefused(stream, delivered.newlyRefused), delivered);
    } catch (thrown) {
      const error = asCdsyncError(thrown);
      error.stream ??= stream;
      if (this.#mayHaveMore && wantsMemory(error.cause) && !this.#isOfFixed(error)) {
        this.#context.notice(`destination ${this.#request.destination.name}: ${stream} begins again with more memory`);
        this.#hasAll = true;
        this.#sessions = 1;
        return undefined;
      }
      if (this.#openFailures.has(error) && ofAllStreams.has(error.kind)) {
        if (this.#present > 1) {
          this.#sessions = 1;
          return undefined;
        }
        this.#outage = error;
      }
      const status = error.kind === 'interrupted' ? 'skipped' : 'failed';
      const refused = { action: 'refused', why: error.message } as const;
      return { ...ended(status, error), ...(isRefusedDelivery(error) ? refused : {}) };
    }
  }

  /** Whether a DuckDB wants memory that has a fixed figure, and has worked alone: it would have no more then. */
  #isOfFixed({ code }: CdsyncError): boolean {
    const { memory_mb } = this.#request.destination.options as { readonly memory_mb?: unknown };
    return this.#present === 1 && memory_mb !== undefined && code !== 'memory_exceeded';
  }

  /** Delivers the published snapshot. Starts again if a run has published a new one since, and removed old files. */
  async #newest(stream: string, progress: DeliveryProgress): Promise<Delivered | undefined> {
    const { layout } = this.#context;
    for (;;) {
      const feed = await readFeed(layout, stream);
      if (feed === undefined) return undefined;
      try {
        return await this.#withSession(stream, feed, progress);
      } catch (error) {
        const isStale = (error as Partial<CdsyncError>).code === 'snapshot_incomplete';
        if (!isStale || (await readFeed(layout, stream))?.sequence === feed.sequence) throw error;
      }
    }
  }

  async #withSession(stream: string, feed: Feed, progress: DeliveryProgress): Promise<Delivered> {
    const { signal } = this.#context;
    signal.throwIfAborted();
    const session = await this.#database.connect();
    const folder = join(this.#folder, stream);
    const delivery = this.#delivery(feed, session, folder, progress);
    try {
      if (this.#request.destination.connector.kind !== 'tables') await this.#rememberBegin(feed);
      const delivered = await session.until(signal, () =>
        withRowsOf(session, this.#rowBytes, () => this.#retried(delivery, folder, progress)),
      );
      await this.#remember(feed, delivery, delivered);
      return delivered;
    } catch (error) {
      if (delivery.owes === true) await rememberOwed(this.#context.layout, this.#request.destination.name, stream);
      // The error that DuckDB throws for an interrupted statement hides the reason.
      if (!signal.aborted) throw error;
      const taken = await this.#taken(delivery, folder);
      if (taken === undefined) throw interrupted(error);
      return { ...taken, isCutShort: true };
    } finally {
      session.close();
      await rm(folder, { recursive: true, force: true });
    }
  }

  #delivery(feed: Feed, session: Session, folder: string, progress: DeliveryProgress): Attempts {
    const inTurn: StreamTask<Connector>['inTurn'] = (work) => this.#inTurn(work);
    const rowBytes = this.#rowBytes;
    const task = { context: this.#context, request: this.#request, feed, session, folder, rowBytes, progress, inTurn };
    const { connector: unguarded, options } = this.#request.destination;
    const guarded = guardConnector(unguarded, options);
    const connector = {
      ...guarded,
      open: (opened: DestinationContext) => this.#opened(guarded, opened),
    } as typeof guarded;
    if (connector.kind === 'files') return new FileDelivery({ ...task, connector });
    return connector.kind === 'tables'
      ? new TableDelivery({ ...task, connector })
      : new RecordDelivery({ ...task, connector });
  }

  async #opened(connector: Connector, options: DestinationContext): Promise<unknown> {
    try {
      return await connector.open(options);
    } catch (error) {
      if (error instanceof CdsyncError) this.#openFailures.add(error);
      throw error;
    }
  }

  async #retried(delivery: Attempts, folder: string, progress: DeliveryProgress): Promise<Delivered> {
    const { clock, signal, notice } = this.#context;
    const began = clock.monotonic();
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await delivery.attempt(this.#options(folder, signal));
      } catch (thrown) {
        const error = asCdsyncError(thrown);
        if (delivery.isReached === false && error.kind === 'retryable') this.#openFailures.add(error);
        const isAway = this.#openFailures.has(error);
        const isSilent = isAway && (this.#present > 1 || clock.monotonic() - began > reachingMs);
        const isLast = attempt === attempts || isSilent || error instanceof AwayForLong;
        if (signal.aborted || error.kind !== 'retryable' || isLast) throw error;
        progress.phase = 'retrying';
        const delay = Math.min(firstDelayMs * 2 ** (attempt - 1), maxDelayMs);
        notice(
          `destination ${this.#request.destination.name}: ${error.message}; next attempt in ${Math.round(delay / 1000)} s`,
        );
        await clock.sleep(delay * (0.75 + Math.random() / 2), signal);
      }
    }
  }

  /** The signal may have come while the destination committed: then only the destination knows whether that counts. */
  async #taken(delivery: Attempts, folder: string): Promise<Delivered | undefined> {
    return delivery.taken(this.#options(folder, abortAfter(askingMs))).catch(() => undefined);
  }

  #options(folder: string, signal: AbortSignal): DestinationContext {
    const { threads } = this.#context.resources;
    const rows = { memoryMb: this.#memoryMb, rowsTogether: this.#rowsTogether, threads };
    return destinationContext({ ...this.#context, signal }, this.#request.destination, folder, rows);
  }

  async #remember(
    feed: Feed,
    { table }: Attempts,
    { action, why, refused, erased, owes = false }: Delivered,
  ): Promise<void> {
    const { layout, clock } = this.#context;
    const { name } = this.#request.destination;
    await rememberDelivery(layout, name, feed.stream, {
      table: table ?? null,
      store_id: feed.store_id,
      sequence: feed.sequence,
      delivered_at: new Date(clock.now()).toISOString(),
      ...(action === 'nothing' ? {} : { action, why, refused }),
      ...(erased === undefined ? {} : { erased }),
      owes,
    });
  }

  /** From here on the receiver may have rows, without a record of them. */
  async #rememberBegin({ stream, store_id, sequence }: Feed): Promise<void> {
    const { layout, clock } = this.#context;
    const erased = lastErasure(await readErasures(layout, stream));
    const begun = { table: null, store_id, sequence, delivered_at: new Date(clock.now()).toISOString(), erased };
    await rememberBegin(layout, this.#request.destination.name, stream, begun);
  }

  #recordsWait(stream: string, records: number): CdsyncError {
    const { name } = this.#request.destination;
    return new CdsyncError(
      `${formatCounted(records, 'record')} of stream "${stream}" ${records === 1 ? 'waits' : 'wait'}: the receiver failed on ${records === 1 ? 'it' : 'them'}, and took others`,
      {
        code: 'records_waiting',
        stream,
        hint: `keys and reasons: cdsync rejects --destination ${name} --stream ${stream}; the next delivery tries them first`,
      },
    );
  }

  #valuesRefused(stream: string, values: number): CdsyncError {
    const { name, connector } = this.#request.destination;
    const refused =
      connector.kind === 'records'
        ? `the receiver refuses ${formatCounted(values, 'record')} of stream "${stream}"`
        : `${formatCounted(values, 'value')} of stream "${stream}" cannot be stored there`;
    return new CdsyncError(refused, {
      code: 'values_refused',
      stream,
      hint: `keys, columns and reasons: cdsync rejects --destination ${name} --stream ${stream}; everything else was delivered`,
    });
  }

  #progressOf(stream: string): DeliveryProgress {
    const common = { destination: this.#request.destination.name, stream, rows: 0, total: undefined };
    return this.#progress.find((delivery) => delivery.stream === stream) ?? { ...common, phase: 'waiting' };
  }
}

/**
 * Updates one destination to the published snapshots. It does not throw if a delivery fails: the result has the
 * error of each stream. A stream that fails does not stop the others.
 */
export async function deliverTo(
  context: DeliveryContext,
  request: DeliveryRequest,
  progress: readonly DeliveryProgress[],
): Promise<StreamDelivery[]> {
  const { resources, layout, clock } = context;
  const { name } = request.destination;
  // Each destination has its own DuckDB instance, whose spilled data goes to the delivery's folder.
  const database = await Database.open(resources);
  let lock: JobLock | undefined;
  try {
    await mkdir(layout.delivery(name), { recursive: true, mode: 0o700 });
    lock = await JobLock.acquireDestination(database, layout, name, new Date(clock.now()).toISOString());
    await checkRules(layout, request.destination);
    return await new Delivering(context, request, database, progress).all();
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    const status = error.kind === 'locked' ? 'skipped' : 'failed';
    const result = { action: 'nothing', why: '', rows: 0, refused: 0, waiting: 0, seconds: 0, variants: [] } as const;
    return request.streams.map((stream) => ({ name, stream, status, ...result, error }));
  } finally {
    await lock?.release();
    database.close();
  }
}

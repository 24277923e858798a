import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import pLimit from 'p-limit';
import { asCdsyncError, CdsyncError, interrupted } from '../core/errors.js';
import { formatCounted, inSeconds } from '../core/quantities.js';
import type { DestinationContext } from '../sdk/destination.js';
import { Database, type Session } from '../store/duckdb.js';
import { type Feed, readFeed } from '../store/feed.js';
import { JobLock } from '../store/job-lock.js';
import type { Delivered, DeliveryContext, DeliveryProgress, DeliveryRequest } from './delivery.js';
import { rememberDelivery } from './delivery-state.js';
import { RecordDelivery } from './record-delivery.js';
import { rejectsPath, tellRejects } from './rejects.js';
import { TableDelivery } from './table-delivery.js';

/** The outcome of delivering one stream to a destination. */
export interface StreamDelivery {
  readonly destination: string;
  readonly stream: string;
  /** `skipped`: the stream is not published yet, another process has the destination's lock, or the user interrupted. */
  readonly status: 'ok' | 'partial' | 'failed' | 'skipped';
  readonly rows: number;
  /** Refused rows that wait for another try, also those that an earlier delivery told of. */
  readonly waiting: number;
  readonly seconds: number;
  readonly error: CdsyncError | undefined;
}

const attempts = 5;
const firstDelayMs = 1_000;
const longestDelayMs = 30_000;
/** How long an interrupted delivery may take to find out what the destination has. */
const askingMs = 10_000;

/** The delivery of one stream, in attempts that are repeated until one succeeds. */
interface Attempts {
  attempt(options: DestinationContext): Promise<Delivered>;
  /** After an interruption: the number of rows that the destination has taken before, or all the same. */
  taken(options: DestinationContext): Promise<number>;
  readonly table: string | undefined;
  readonly definition: string;
}

/** The delivery to one destination, under its lock. */
class Delivering {
  readonly #context: DeliveryContext;
  readonly #request: DeliveryRequest;
  readonly #progress: readonly DeliveryProgress[];
  readonly #database: Database;
  readonly #folder: string;
  /** All streams of a destination share its state file, so they write it one at a time. */
  readonly #remembering = pLimit(1);

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
    this.#folder = join(context.layout.delivery(request.destination.name), 'work');
  }

  async all(): Promise<StreamDelivery[]> {
    const { connector } = this.#request.destination;
    const atOnce = connector.kind === 'tables' ? (connector.capabilities.streamsAtOnce ?? 1) : 1;
    // An interrupted delivery leaves its files.
    await rm(this.#folder, { recursive: true, force: true });
    const limit = pLimit(atOnce);
    try {
      return await Promise.all(this.#request.streams.map((stream) => limit(() => this.#stream(stream))));
    } finally {
      await rm(this.#folder, { recursive: true, force: true });
    }
  }

  async #stream(stream: string): Promise<StreamDelivery> {
    const { clock } = this.#context;
    const began = clock.monotonic();
    const progress = this.#progressOf(stream);
    const ended = (rest: Pick<StreamDelivery, 'status' | 'rows' | 'error'> & { waiting?: number }): StreamDelivery => {
      progress.phase = rest.error === undefined ? 'done' : 'failed';
      const seconds = inSeconds(clock.monotonic() - began);
      return { destination: this.#request.destination.name, stream, seconds, waiting: 0, ...rest };
    };
    try {
      const delivered = await this.#newest(stream, progress);
      if (delivered === undefined) return ended({ status: 'skipped', rows: 0, error: nothingPublished(stream) });
      const { rows, rejected, isCutShort } = delivered;
      if (isCutShort) return ended({ status: 'partial', rows, error: cutShort(stream) });
      const waiting = rejected.all;
      if (rejected.untold === 0) return ended({ status: 'ok', rows, waiting, error: undefined });
      return ended({ status: 'partial', rows, waiting, error: this.#rejectsRemain(stream, rejected.untold) });
    } catch (thrown) {
      const error = asCdsyncError(thrown);
      error.stream ??= stream;
      return ended({ status: error.kind === 'interrupted' ? 'skipped' : 'failed', rows: 0, error });
    }
  }

  /** Delivers the published snapshot. Starts again if a run published a new one, and removed old files, meanwhile. */
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
    const interrupt = () => session.interrupt();
    signal.addEventListener('abort', interrupt);
    const folder = join(this.#folder, stream);
    const delivery = this.#delivery(feed, session, folder, progress);
    try {
      const delivered = await this.#retried(delivery, folder, progress);
      await this.#remember(feed, delivery, delivered);
      await tellRejects(rejectsPath(this.#context.layout, this.#request.destination.name, stream));
      return delivered;
    } catch (error) {
      // The error that DuckDB throws for an interrupted statement hides the reason.
      if (!signal.aborted) throw error;
      const rows = await this.#taken(delivery, folder);
      if (rows === 0) throw interrupted(error);
      return { rows, rejected: { all: 0, untold: 0 }, isCutShort: true };
    } finally {
      signal.removeEventListener('abort', interrupt);
      session.close();
      await rm(folder, { recursive: true, force: true });
    }
  }

  #delivery(feed: Feed, session: Session, folder: string, progress: DeliveryProgress): Attempts {
    const task = { context: this.#context, request: this.#request, feed, session, folder, progress };
    const { connector } = this.#request.destination;
    return connector.kind === 'tables'
      ? new TableDelivery({ ...task, connector })
      : new RecordDelivery({ ...task, connector });
  }

  async #retried(delivery: Attempts, folder: string, progress: DeliveryProgress): Promise<Delivered> {
    const { clock, signal, notice } = this.#context;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await delivery.attempt(this.#options(folder, signal));
      } catch (thrown) {
        const error = asCdsyncError(thrown);
        if (signal.aborted || error.kind !== 'retryable' || attempt === attempts) throw error;
        progress.phase = 'retrying';
        const delay = Math.min(firstDelayMs * 2 ** (attempt - 1), longestDelayMs);
        notice(
          `destination ${this.#request.destination.name}: ${error.message}; next attempt in ${Math.round(delay / 1000)} s`,
        );
        await clock.sleep(delay * (0.75 + Math.random() / 2), signal);
      }
    }
  }

  /** The signal may have come while the destination committed: then only the destination knows whether that counts. */
  async #taken(delivery: Attempts, folder: string): Promise<number> {
    return delivery.taken(this.#options(folder, AbortSignal.timeout(askingMs))).catch(() => 0);
  }

  #options(folder: string, signal: AbortSignal): DestinationContext {
    const { layout, service, notice } = this.#context;
    const { name, options } = this.#request.destination;
    return {
      destination: name,
      job: layout.job,
      options: options as DestinationContext['options'],
      folder,
      service,
      signal,
      notice: (line) => notice(`destination ${name}: ${line}`),
    };
  }

  async #remember(feed: Feed, { table, definition }: Attempts, { rejected }: Delivered): Promise<void> {
    const { layout, clock } = this.#context;
    await this.#remembering(() =>
      rememberDelivery(layout, this.#request.destination.name, feed.stream, {
        table: table ?? null,
        store_id: feed.store_id,
        sequence: feed.sequence,
        definition,
        delivered_at: new Date(clock.now()).toISOString(),
        rejected: rejected.all,
      }),
    );
  }

  #rejectsRemain(stream: string, rejected: number): CdsyncError {
    const { name } = this.#request.destination;
    return new CdsyncError(`${formatCounted(rejected, 'row')} of stream "${stream}" could not be stored there`, {
      code: 'rows_rejected',
      stream,
      hint: `rows and reasons: .cdsync/deliveries/${name}/rejects/${stream}.jsonl; each delivery tries them again, and counts them while their reasons stand`,
    });
  }

  #progressOf(stream: string): DeliveryProgress {
    const found = this.#progress.find((each) => each.stream === stream);
    return (
      found ?? { destination: this.#request.destination.name, stream, phase: 'waiting', rows: 0, total: undefined }
    );
  }
}

function cutShort(stream: string): CdsyncError {
  return new CdsyncError('interrupted: these rows are there, but nothing was verified', {
    code: 'interrupted',
    kind: 'interrupted',
    stream,
    hint: 'cdsync push brings the rest, if there is one',
  });
}

function nothingPublished(stream: string): CdsyncError {
  return new CdsyncError(`stream "${stream}" has no snapshot yet`, {
    code: 'not_published',
    stream,
    hint: 'run it first: cdsync run',
  });
}

/**
 * Brings one destination up to date with the published snapshots. It does not throw if a delivery fails: the result has the
 * error of each stream. A stream that fails does not stop the others.
 */
export async function deliverTo(
  context: DeliveryContext,
  request: DeliveryRequest,
  progress: readonly DeliveryProgress[],
): Promise<StreamDelivery[]> {
  const { resources, layout, clock } = context;
  const { name } = request.destination;
  const all = (status: 'failed' | 'skipped', error: CdsyncError): StreamDelivery[] =>
    request.streams.map((stream) => ({ destination: name, stream, status, rows: 0, waiting: 0, seconds: 0, error }));
  // Each destination has a DuckDB instance of its own, whose spilled data goes to the delivery's folder.
  const database = await Database.open(resources);
  let lock: JobLock | undefined;
  try {
    await mkdir(layout.delivery(name), { recursive: true, mode: 0o700 });
    lock = await JobLock.acquireDestination(database, layout, name, new Date(clock.now()).toISOString());
    return await new Delivering(context, request, database, progress).all();
  } catch (thrown) {
    const error = asCdsyncError(thrown);
    return all(error.kind === 'locked' ? 'skipped' : 'failed', error);
  } finally {
    await lock?.release();
    database.close();
  }
}

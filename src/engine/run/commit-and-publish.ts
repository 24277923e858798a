import { readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { asCdsyncError, CdsyncError, reworded } from '../../core/errors.js';
import type { RunStatus } from '../../core/run-report.js';
import { removeCacheFile } from '../../record-cache/cache-file.js';
import { type CommitCacheUpdate, prepareCacheUpdate } from '../../snapshot/cache-update.js';
import {
  columnsWritten,
  commitRun,
  isChanged,
  type RunCommit,
  recordHeldRun,
  type StreamCommit,
} from '../../snapshot/commit.js';
import { compact, compactionReason } from '../../snapshot/compact.js';
import { type PublishOptions, publish } from '../../snapshot/publish.js';
import { publishedAt } from '../../snapshot/publish-database.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { isDamaged } from '../../storage/database-file.js';
import type { Database } from '../../storage/duckdb.js';
import type { JobLayout } from '../../storage/layout.js';
import { memoryForCommit, type Phase, planMemory } from '../../storage/memory-plan.js';
import { oweRemoval, removalDone } from '../../storage/removal-owed.js';
import type { RunIdentity } from '../../storage/run-state.js';
import { openPublishedFolder } from '../../storage/storage.js';
import type { RunContext } from '../run-context.js';

/**
 * A run without changes publishes nothing, unless the published file is older than this: its time of the last run would be too old.
 */
const quietMs = 12 * 3_600_000;

type PublishContext = Pick<RunContext, 'database' | 'layout' | 'job' | 'clock' | 'notice'> & {
  /** Whether nothing is removed because of its age: the clock is wrong, or not checked yet. */
  readonly keepsAll?: boolean;
  /** The time from which ages count, in milliseconds since 1970. Default: now. */
  readonly ageFromMs?: number;
};

interface CommitTask {
  readonly run: RunIdentity;
  readonly status: RunStatus;
  /** Number of the previous commit. */
  readonly sequence: number;
  readonly streams: readonly StreamCommit[];
  /** Whether to publish the run even if it changed nothing: a stream is held, has failed, has rejects, or was approved. */
  readonly isNews: boolean;
}

/**
 * Data that a run removes because of its age is as old at the last commit: a clock that jumps ahead, within a run or before it, must not
 * make everything old.
 */
function agesCountFrom({ startedAt }: RunIdentity, streams: readonly StreamCommit[]): number {
  const earlier = streams.flatMap(({ task }) =>
    task.previous === undefined ? [] : Date.parse(task.previous.synced_at),
  );
  return Math.min(Date.parse(startedAt), earlier.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...earlier));
}

/** How a job's snapshots are published: file mode, and how long earlier files stay. */
function publishOptions({ job, clock, keepsAll = false, ageFromMs = clock.now() }: PublishContext): PublishOptions {
  const { publish: published, keep } = job;
  const changesBefore = new Date(keepsAll ? 0 : ageFromMs - keep.changes).toISOString();
  return { duckdb: published.duckdb, mode: published.mode, keepSnapshots: keep.snapshots, changesBefore };
}

/**
 * Closes the store, compacts it if much of it is free space, and updates the published files from it. May be
 * repeated.
 * @param repairs whether to write a damaged published file again: `all` does so with one that seems whole, too
 * @throws {CdsyncError} `state_unreadable`, `snapshot_incomplete`, `disk_full`
 */
export async function publishStore(
  context: PublishContext,
  store: SnapshotStore,
  { repairs }: { repairs: 'none' | 'damaged' | 'all' } = { repairs: 'none' },
): Promise<void> {
  const { database, layout, notice } = context;
  const state = await store.state();
  const reason = await compactionReason(store, state);
  if (reason === 'rewritten') {
    layout.remoteFiles?.collectImmediately();
    await oweRemoval(layout, context.clock.now());
  }
  // Close it first: copying the file of an attached store would drop DuckDB's lock on it.
  await store.close();
  await compact(database, layout, { reason, sequence: state.sequence, notice });
  const again = repairs === 'all' || (repairs === 'damaged' && (await isDamagedHere(database, layout)));
  const options = publishOptions(context);
  await publish(database, layout, state, { ...options, again });
  await removalDone(layout);
  // What did not change is not published again, but its mode may have changed. Objects in a bucket have none.
  if (layout.remoteFiles !== undefined) return;
  for (const folder of [layout.publishedFolder, layout.parquet]) await openPublishedFolder(folder, options.mode);
}

/** Whether the published file is damaged. A remote file counts as intact. */
async function isDamagedHere(database: Database, layout: JobLayout): Promise<boolean> {
  const target = await readlink(layout.link).catch(() => undefined);
  const isRemote = target !== undefined && layout.remoteFiles?.find(join(layout.folder, target)) !== undefined;
  return !isRemote && (await isDamaged(database, layout.link));
}

/** Updates of the record caches for the next run. If one fails, the next run converts all records of its stream. */
class CacheUpdates {
  readonly #context: Pick<RunContext, 'layout' | 'notice' | 'signal' | 'caches'>;
  readonly #keep = new Map<string, CommitCacheUpdate>();

  constructor(context: Pick<RunContext, 'layout' | 'notice' | 'signal' | 'caches'>) {
    this.#context = context;
  }

  /** Writes temporary files, for {@link keep}. */
  async prepare(store: SnapshotStore, { run, streams }: Pick<CommitTask, 'run' | 'streams'>): Promise<void> {
    const { layout, signal, caches } = this.#context;
    const { id: storeId } = await store.state();
    for (const commit of streams) {
      const { task, tables, known } = commit;
      const { stream } = task;
      const runId = isChanged(commit) ? run.runId : (task.previous?.run_id ?? run.runId);
      const about = { caches, stream, tables, known, storeId, runId };
      try {
        this.#keep.set(stream, await store.session.until(signal, () => prepareCacheUpdate(store, layout, about)));
      } catch (error) {
        if (signal.aborted) return;
        this.#keep.set(stream, () => Promise.reject(error));
      }
    }
  }

  /** Replaces the caches. Call it after the commit. */
  async keep(): Promise<void> {
    const { layout, notice } = this.#context;
    for (const [stream, keep] of this.#keep) {
      await keep().catch(async (error) => {
        await removeCacheFile(layout.known(stream)).catch(() => undefined);
        notice(`stream ${stream}: the next run will convert all of its records again: ${asCdsyncError(error).message}`);
      });
    }
  }
}

/** The result of a commit. */
export interface Committed {
  /** Number of the current snapshot. */
  readonly sequence: number;
  /** Why readers do not see it yet. The next run publishes it, out of the folder of this one. */
  readonly unpublished: CdsyncError | undefined;
}

/** The error for a commit. If its tables are too many for the memory, it says how much they need. */
function withMemoryNeeded(error: unknown, writtenColumns: number, memoryMb: number): unknown {
  const neededMb = memoryForCommit(writtenColumns);
  if (!(error instanceof CdsyncError) || error.code !== 'memory_exceeded' || neededMb <= memoryMb) return error;
  const hint = `the tables of this commit need about ${neededMb} MB in all: set \`resources.memory_mb\` to that, or divide the streams among jobs`;
  return reworded(error, error.message, { hint, cause: error.cause });
}

/**
 * Commits streams together, publishes the result, and closes the store. After the commit the run counts as done: the signal
 * no longer stops it, and if publishing fails, the next run publishes.
 * @throws {CdsyncError} `interrupted` if the signal aborts before the commit counts; if nothing was committed, or a bucket keeps the job,
 *   also what {@link publishStore} throws
 */
export async function commitAndPublish(
  context: PublishContext & Pick<RunContext, 'config' | 'progress' | 'signal' | 'bucket' | 'caches' | 'client'>,
  store: SnapshotStore,
  { run, status, sequence: before, streams, isNews }: CommitTask,
): Promise<Committed> {
  const { database, layout, progress, clock, job, signal, client } = context;
  progress.phase = 'committing';
  client.freeBuffers();
  const cacheUpdates = new CacheUpdates(context);
  const { columnsAtOnce } = planMemory(context.config.resources);
  const ageFromMs = agesCountFrom(run, streams);
  const commit: RunCommit = {
    layout,
    runId: run.runId,
    startedAt: run.startedAt,
    finishedAt: new Date(clock.now()).toISOString(),
    status,
    sequence: before,
    streams,
    parquet: job.parquet.enabled,
    historyFrom: new Date(context.keepsAll === true ? 0 : ageFromMs - job.publish.history).toISOString(),
    columnsAtOnce,
    signal,
    meanwhile: () => cacheUpdates.prepare(store, { run, streams }),
  };
  const isFirst = streams.some(({ task }) => task.previous === undefined);
  const work = async () => {
    const committed = await commitRun(store, commit);
    await cacheUpdates.keep();
    return committed;
  };
  const recordBytes = Math.max(...streams.map((commit) => commit.task.recordBytes));
  const columns = streams.map(columnsWritten);
  const all = columns.reduce((sum, count) => sum + count, 0);
  const writtenColumns = Math.min(all, Math.max(columnsAtOnce, ...columns));
  const phase = isFirst ? 'first commit' : 'commit';
  await database.freeReadBlocks();
  const commitIn = (limits: Phase) => database.use(limits, { recordBytes, writtenColumns }, work);
  const sequence = await commitIn(phase)
    .catch((error) => {
      // The limit of a first commit is for rows of usual length, and the length of a query's rows is unknown.
      if (isFirst && asCdsyncError(error).code === 'memory_exceeded') return commitIn('commit');
      throw error;
    })
    .catch((error) => {
      throw withMemoryNeeded(error, writtenColumns, context.config.resources.memoryMb);
    });
  progress.phase = 'publishing';
  // In a bucket, each run would upload the whole database.
  const isStale = context.bucket === undefined && clock.now() - (await publishedAt(layout)) >= quietMs;
  try {
    await publishStore({ ...context, ageFromMs }, store, {
      repairs: sequence === before && (isNews || isStale) ? 'all' : 'none',
    });
    return { sequence, unpublished: undefined };
  } catch (thrown) {
    if (sequence === before || context.bucket !== undefined) throw thrown;
    const error = asCdsyncError(thrown);
    const message = `committed, but not published: ${error.message}`;
    return { sequence, unpublished: reworded(error, message, { ...error, cause: thrown }) };
  }
}

/**
 * Records a run whose streams are all held, and publishes the record. Closes the store.
 * @throws {CdsyncError} `state_unreadable`, `snapshot_incomplete`, `disk_full`
 */
export async function publishHeld(context: PublishContext, store: SnapshotStore, run: RunIdentity): Promise<void> {
  const finishedAt = new Date(context.clock.now()).toISOString();
  await recordHeldRun(store, { ...run, finishedAt });
  await publishStore(context, store, { repairs: 'all' });
}

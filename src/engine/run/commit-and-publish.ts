import type { RunStatus } from '../../core/run.js';
import { commitRun, type StreamCommit } from '../../snapshot/commit.js';
import { compact, compactionReason } from '../../snapshot/compact.js';
import { type PublishOptions, publish } from '../../snapshot/publish.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { isDamaged } from '../../store/duckdb.js';
import type { RunIdentity } from '../../store/run-state.js';
import type { RunContext } from '../run-context.js';

type PublishContext = Pick<RunContext, 'database' | 'layout' | 'job' | 'clock'>;

export interface CommitTask {
  readonly run: RunIdentity;
  readonly status: RunStatus;
  /** Of the commit before. */
  readonly sequence: number;
  readonly streams: readonly StreamCommit[];
}

/** What of a job's snapshots people may see, and how much of the past. */
function publishOptions({ job, clock }: PublishContext): PublishOptions {
  const { publish: published, keep } = job;
  const changesBefore = new Date(clock.now() - keep.changes).toISOString();
  return { duckdb: published.duckdb, mode: published.mode, keepSnapshots: keep.snapshots, changesBefore };
}

/**
 * Closes the store, gives its free space back where that is much, and brings what people read to what it says. May be repeated.
 * @param repairs whether a published file that is damaged is written anew
 * @throws {CdsyncError} `state_unreadable`, `snapshot_incomplete`, `disk_full`
 */
export async function publishStore(
  context: PublishContext,
  store: SnapshotStore,
  { repairs }: { repairs: boolean } = { repairs: false },
): Promise<void> {
  const { database, layout } = context;
  const state = await store.state();
  const reason = await compactionReason(store, state);
  // Copying the file of an attached store would drop DuckDB's lock on it.
  await store.close();
  await compact(database, layout, { reason, sequence: state.sequence });
  const again = repairs && (await isDamaged(database, layout.link));
  await publish(database, layout, state, { ...publishOptions(context), again });
}

/**
 * Commits streams together, and publishes the result. The run counts from the commit on: where publishing fails, the next run
 * does it. The store is closed by it.
 * @returns the sequence number that stands
 */
export async function commitAndPublish(
  context: PublishContext & Pick<RunContext, 'progress'>,
  store: SnapshotStore,
  { run, status, sequence: before, streams }: CommitTask,
): Promise<number> {
  const { layout, progress, clock, job } = context;
  progress.phase = 'committing';
  const sequence = await commitRun(store, {
    layout,
    runId: run.runId,
    startedAt: run.startedAt,
    finishedAt: new Date(clock.now()).toISOString(),
    status,
    sequence: before,
    streams,
    parquet: job.parquet.enabled,
    historyMs: job.publish.history,
  });
  progress.phase = 'publishing';
  await publishStore(context, store);
  return sequence;
}

import { sqlTexts } from '../../core/sql.js';
import { restoreFiles } from '../../snapshot/restore-files.js';
import { distinctValues, SnapshotStore, type StoreState, storeTable } from '../../snapshot/snapshot-store.js';
import { discardStreams } from '../../store/run-state.js';
import { runFolders } from '../../store/storage.js';
import type { RunContext } from '../run-context.js';
import { publishStore } from './commit-and-publish.js';
import { type StoredKeys, storedKeysOf } from './stored-keys.js';

/** What the store says before a run. */
export interface Before extends StoreState {
  /** Values of the partitioning attribute in the last snapshot, by stream. */
  readonly values: ReadonlyMap<string, readonly string[]>;
  /** Which stored records are read again by their keys, by stream. */
  readonly again: ReadonlyMap<string, StoredKeys>;
  /** Ids of runs that have committed and still have a folder. */
  readonly committed: ReadonlySet<string>;
  readonly duckdbVersion: string;
}

type RecoveryContext = Pick<RunContext, 'database' | 'layout' | 'job' | 'clock' | 'notice' | 'full'>;

/** A stream that a run has committed, and whose folder in the run still exists. */
export interface CommittedStream {
  readonly runId: string;
  readonly stream: string;
}

/** Reads what a store, or its published copy, says before a run. */
export async function readBefore(
  store: SnapshotStore,
  { layout, job }: Pick<RunContext, 'layout' | 'job'>,
): Promise<{ before: Before; committed: readonly CommittedStream[] }> {
  const state = await store.state();
  const values = new Map<string, string[]>();
  const again = new Map<string, StoredKeys>();
  for (const stream of job.streams) {
    const known = state.streams.get(stream.name);
    if (known === undefined) continue;
    again.set(stream.name, await storedKeysOf(store, stream, known));
    const { partitionBy } = stream.reads;
    if (partitionBy === undefined || partitionBy.values !== undefined) continue;
    values.set(stream.name, await distinctValues(store, known, 'attribute', partitionBy.attribute));
  }
  const folders = await runFolders(layout);
  const runs = await store.session.rows(
    `SELECT run_id, stream FROM ${storeTable('streams', 'cdsync')} WHERE list_contains(${sqlTexts(folders)}::VARCHAR[], run_id)`,
  );
  const committed = runs.map(({ run_id, stream }) => ({ runId: String(run_id), stream: String(stream) }));
  const [version] = await store.session.rows('SELECT version() AS version');
  const runIds = new Set(committed.map(({ runId }) => runId));
  const before = { ...state, values, again, committed: runIds, duckdbVersion: String(version?.version) };
  return { before, committed };
}

/** Writes missing Parquet files anew; with --full, those with another checksum too. */
async function restore(context: RecoveryContext, store: SnapshotStore, before: Before): Promise<Before> {
  const { layout, job, full, notice } = context;
  const options = { thorough: full, compression: job.parquet.compression };
  const restored = await restoreFiles(store, layout, before.streams.values(), options);
  for (const { stream } of restored) {
    notice(`stream ${stream}: its Parquet files were missing or damaged, and were written anew from the store`);
  }
  return {
    ...before,
    streams: new Map([...before.streams, ...restored.map((state) => [state.stream, state] as const)]),
  };
}

/** Reads what the store says before the run. Also repairs published files after a crash, or after somebody damaged them. */
export async function recover(context: RecoveryContext): Promise<Before> {
  const { database, layout } = context;
  const store = await SnapshotStore.open(database, layout);
  try {
    const found = await readBefore(store, context);
    const before = await restore(context, store, found.before);
    await publishStore(context, store, { repairs: context.full ? 'all' : 'damaged' });
    // A committed stream is never resumed: its records would be taken for newly read ones.
    for (const { runId, stream } of found.committed) await discardStreams(layout, runId, [stream]);
    return before;
  } finally {
    await store.close();
  }
}

import type { StreamConfig } from '../../config/config.js';
import { sqlTexts } from '../../core/sql.js';
import type { StoredColumn } from '../../rows/columns.js';
import { gatherSnapshots } from '../../snapshot/current-snapshot.js';
import { judgedColumns } from '../../snapshot/judge-texts.js';
import { restoreFiles } from '../../snapshot/restore-files.js';
import {
  distinctValues,
  SnapshotStore,
  type StoreState,
  type StreamState,
  storeTable,
} from '../../snapshot/snapshot-store.js';
import { splitCandidates } from '../../snapshot/split-candidates.js';
import type { Session } from '../../store/duckdb.js';
import { discardStreams } from '../../store/run-state.js';
import { runFolders } from '../../store/storage.js';
import { isWorthSplitting, type Split } from '../../streams/splits.js';
import { judgedBy } from '../column-rules.js';
import type { RunContext } from '../run-context.js';
import { publishStore } from './commit-and-publish.js';
import { type StoredKeys, storedKeysOf } from './stored-keys.js';

/** What the store says before a run. */
export interface Before extends StoreState {
  /** Values of the partitioning attribute in the last snapshot, by stream. */
  readonly values: ReadonlyMap<string, readonly string[]>;
  /** How lists could be split whose runs choose that themselves, by stream. */
  readonly splits: ReadonlyMap<string, readonly Split[]>;
  /** Which stored records are read again by their keys, by stream. */
  readonly again: ReadonlyMap<string, StoredKeys>;
  /** Ids of runs that have committed and still have a folder. */
  readonly committed: ReadonlySet<string>;
  /** What readings begin with: the columns of the last snapshot, with the forms of their texts if those are judged. */
  readonly columns: ReadonlyMap<string, readonly StoredColumn[]>;
  readonly duckdbVersion: string;
}

type RecoveryContext = Pick<RunContext, 'database' | 'layout' | 'job' | 'clock' | 'notice' | 'full'> &
  Partial<Pick<RunContext, 'config'>>;

/** A stream that a run has committed, and whose folder in the run still exists. */
export interface CommittedStream {
  readonly runId: string;
  readonly stream: string;
}

/** How a stream's list could be split, by its last snapshot; none if it has too few pages. */
export function possibleSplits(
  session: Session,
  { columns, reads }: StreamConfig,
  state: StreamState,
  pageSize: number,
): Promise<readonly Split[]> | readonly Split[] {
  if (!isWorthSplitting(state.rows, reads.pageSize ?? pageSize)) return [];
  // Partition values are journaled as they are, so a column with a rule is not used, even if the snapshot still has its text.
  const hides = (field: string) =>
    reads.filter.has(field) || columns[field] !== undefined || columns[`attributes.${field}`] !== undefined;
  return splitCandidates(session, state, hides);
}

function columnsToBeginWith(
  store: SnapshotStore,
  config: StreamConfig,
  state: StreamState,
): Promise<readonly StoredColumn[]> | readonly StoredColumn[] {
  const judges = judgedBy(config);
  const isQuery = config.reads.open === undefined;
  return judges === undefined
    ? state.columns
    : judgedColumns(store, state, (column) => (isQuery || column.declared === undefined) && judges(column));
}

/** Reads what a store, or its published copy, says before a run. Without a configuration nothing will be read, so no list is split. */
export async function readBefore(
  store: SnapshotStore,
  { layout, job, config }: Pick<RecoveryContext, 'layout' | 'job' | 'config'>,
): Promise<{ before: Before; committed: readonly CommittedStream[] }> {
  const state = await store.state();
  const values = new Map<string, string[]>();
  const splits = new Map<string, readonly Split[]>();
  const again = new Map<string, StoredKeys>();
  const columns = new Map<string, readonly StoredColumn[]>();
  for (const stream of job.streams) {
    const known = state.streams.get(stream.name);
    if (known === undefined) continue;
    again.set(stream.name, await storedKeysOf(store, stream, known));
    columns.set(stream.name, await columnsToBeginWith(store, stream, known));
    const { partitionBy } = stream.reads;
    if (partitionBy === 'auto' && config !== undefined)
      splits.set(stream.name, await possibleSplits(store.session, stream, known, config.service.pageSize));
    if (partitionBy === undefined || partitionBy === 'auto' || partitionBy.values !== undefined) continue;
    values.set(stream.name, await distinctValues(store, known, 'attribute', partitionBy.attribute));
  }
  const folders = await runFolders(layout);
  const runs = await store.session.rows(
    `SELECT run_id, stream FROM ${storeTable('streams', 'cdsync')} WHERE list_contains(${sqlTexts(folders)}::VARCHAR[], run_id)`,
  );
  const committed = runs.map(({ run_id, stream }) => ({ runId: String(run_id), stream: String(stream) }));
  const [version] = await store.session.rows('SELECT version() AS version');
  const runIds = new Set(committed.map(({ runId }) => runId));
  const before = {
    ...state,
    values,
    splits,
    again,
    columns,
    committed: runIds,
    duckdbVersion: String(version?.version),
  };
  return { before, committed };
}

/**
 * Writes missing Parquet files anew; with --full, those with another checksum too. Snapshots of earlier versions get one folder for
 * all of their files.
 */
async function restore(context: RecoveryContext, store: SnapshotStore, before: Before): Promise<Before> {
  const { layout, job, full, notice } = context;
  const options = { thorough: full, compression: job.parquet.compression };
  const restored = await restoreFiles(store, layout, before.streams.values(), options);
  for (const { stream } of restored) {
    notice(`stream ${stream}: its Parquet files were missing or damaged, and were written anew from the store`);
  }
  const streams = new Map([...before.streams, ...restored.map((state) => [state.stream, state] as const)]);
  for (const state of await gatherSnapshots(store, layout, [...streams.values()])) streams.set(state.stream, state);
  return { ...before, streams };
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

import type { StoredColumn } from '../../columns/columns.js';
import type { StreamConfig } from '../../config/config.js';
import { sqlTexts } from '../../core/sql.js';
import { restoreEarlierChanges, restoreFiles } from '../../snapshot/restore-files.js';
import { distinctValues, SnapshotStore, type StoreState, storedRows } from '../../snapshot/snapshot-store.js';
import { storeTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { isWorthSplitting, type Split } from '../../sources/splits.js';
import { settlePending } from '../../storage/approvals.js';
import type { Session } from '../../storage/duckdb.js';
import { discardStreams } from '../../storage/run-state.js';
import { runFolders } from '../../storage/storage.js';
import { textRulesOf, writtenRule } from '../column-rules.js';
import type { RunContext } from '../run-context.js';
import { publishStore } from './commit-and-publish.js';

/** The keys of the stored records of a stream whose records change until they have ended. */
export interface StoredKeys {
  /** Records to request by id: those that may still change, and {@link StoredKeys.undetailed}. */
  readonly asked: readonly string[];
  /** Ended records whose details were never read. */
  readonly undetailed: ReadonlySet<string>;
  /** Records in pages that need not be read again. With `--full` or for a span of time, ended ones are read again too. */
  skipped(context: Pick<RunContext, 'full' | 'range'>): ReadonlySet<string>;
}

export const noStoredKeys: StoredKeys = { asked: [], undetailed: new Set(), skipped: () => new Set() };

/** The columns that show whether a record has its details; empty if the snapshot keeps none of them. */
function detailColumns(config: StreamConfig): readonly string[] {
  const { reads, contract } = config;
  // A contract may leave out new columns: their details would be requested in every run.
  if (contract.columns !== 'evolve') return [];
  return (reads.details ?? []).filter((field) => writtenRule(config, { place: 'envelope', field })?.drop !== true);
}

async function storedKeysOf(store: SnapshotStore, config: StreamConfig, state: StreamState): Promise<StoredKeys> {
  const { unfinished, details } = config.reads;
  const [key] = state.key;
  if (unfinished === undefined || key === undefined) return noStoredKeys;
  const detailFields = detailColumns(config);
  const base = new Set([key, ...unfinished.watched, '_age_ms']);
  const asked: string[] = [];
  const undetailed = new Set<string>();
  const all = new Set<string>();
  for await (const record of storedRows(store, state, [...base, ...detailFields])) {
    const id = String(record[key]);
    if (details !== undefined) all.add(id);
    const isOpen = unfinished.is(record, Number(record._age_ms));
    const hasDetails = Object.entries(record).some(([name, value]) => !base.has(name) && value !== null);
    if (!isOpen && detailFields.length > 0 && !hasDetails) undetailed.add(id);
    if (isOpen || undetailed.has(id)) asked.push(id);
  }
  const skipped = ({ full, range }: Pick<RunContext, 'full' | 'range'>) =>
    full || range !== undefined ? new Set(details === undefined ? [] : asked) : all;
  return { asked, undetailed, skipped };
}

/** The state of the store before a run. */
export interface PreviousState extends StoreState {
  /** Values of the partitioning attribute in the last snapshot, by stream. */
  readonly values: ReadonlyMap<string, readonly string[]>;
  /** Possible splits of lists with `partition_by: auto`, by stream. */
  readonly splits: ReadonlyMap<string, readonly Split[]>;
  /** Which stored records are read again by their keys, by stream. */
  readonly again: ReadonlyMap<string, StoredKeys>;
  /** Ids of runs that have committed and still have a folder. */
  readonly committed: ReadonlySet<string>;
  /** The columns that a reading starts with: those of the last snapshot, with their text formats if those are inferred. */
  readonly columns: ReadonlyMap<string, readonly StoredColumn[]>;
  readonly duckdbVersion: string;
}

type RecoveryContext = Pick<RunContext, 'database' | 'layout' | 'job' | 'clock' | 'notice' | 'full'> &
  Partial<Pick<RunContext, 'config'>>;

/** How a stream's list could be split, by its last snapshot; none if it has too few pages. */
export async function possibleSplits(
  session: Session,
  config: StreamConfig,
  state: StreamState,
  pageSize: number,
): Promise<readonly Split[]> {
  const { columns, reads } = config;
  if (!isWorthSplitting(state.rows, reads.pageSize ?? pageSize)) return [];
  // Partition values are journaled as they are, so a column with a rule is not used, even if the snapshot still has its text.
  const ruled = Object.keys(columns).map((name) => name.toLowerCase());
  const hides = (field: string) =>
    reads.filter.has(field) ||
    writtenRule(config, { place: 'attribute', field }) !== undefined ||
    [field, `attributes.${field}`].some((name) => ruled.includes(name.toLowerCase()));
  const { splitCandidates } = await import('../../snapshot/split-candidates.js');
  return splitCandidates(session, state, hides);
}

async function columnsToBeginWith(
  store: SnapshotStore,
  config: StreamConfig,
  state: StreamState,
): Promise<readonly StoredColumn[]> {
  const infersFormat = textRulesOf(config);
  if (infersFormat === undefined) return state.columns;
  const { inferColumnFormats } = await import('../../snapshot/infer-text-formats.js');
  const isQuery = config.reads.open === undefined;
  return inferColumnFormats(
    store,
    state,
    (column) => (isQuery || column.declared === undefined) && infersFormat(column),
  );
}

/** Reads the state of a store, or of its published copy, before a run. Without `config`, it looks for no splits. */
export async function readPreviousState(
  store: SnapshotStore,
  { layout, job, config }: Pick<RecoveryContext, 'layout' | 'job' | 'config'>,
): Promise<{ before: PreviousState; committed: readonly { runId: string; stream: string }[] }> {
  const state = await store.state();
  const values = new Map<string, string[]>();
  const splits = new Map<string, readonly Split[]>();
  const again = new Map<string, StoredKeys>();
  const columns = new Map<string, readonly StoredColumn[]>();
  for (const stream of job.streams) {
    const previous = state.streams.get(stream.name);
    if (previous === undefined) continue;
    again.set(stream.name, await storedKeysOf(store, stream, previous));
    columns.set(stream.name, await columnsToBeginWith(store, stream, previous));
    const { partitionBy } = stream.reads;
    if (partitionBy === 'auto' && config !== undefined)
      splits.set(stream.name, await possibleSplits(store.session, stream, previous, config.service.pageSize));
    if (partitionBy === undefined || partitionBy === 'auto' || partitionBy.values !== undefined) continue;
    values.set(stream.name, await distinctValues(store, previous, 'attribute', partitionBy.attribute));
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

/** Writes missing Parquet files again; with --full, those with another checksum too. */
async function restore(context: RecoveryContext, store: SnapshotStore, before: PreviousState): Promise<PreviousState> {
  const { layout, job, full, notice } = context;
  const options = { thorough: full, compression: job.parquet.compression };
  const restored = await restoreFiles(store, layout, before.streams.values(), options);
  for (const { stream } of restored) {
    notice(`stream ${stream}: its Parquet files were missing or damaged, and were written again from the store`);
  }
  // If the files of a snapshot are lost, those of earlier changes may be lost too.
  for (const state of full ? before.streams.values() : restored) {
    if (await restoreEarlierChanges(store, { layout, compression: options.compression }, state))
      notice(
        `stream ${state.stream}: changes of earlier runs were missing or damaged; they were written again or left out`,
      );
  }
  const streams = new Map([...before.streams, ...restored.map((state) => [state.stream, state] as const)]);
  return { ...before, streams };
}

/** Reads the state of the store before a run, and repairs published files that are missing or damaged, after a crash for example. */
export async function recover(context: RecoveryContext): Promise<PreviousState> {
  const { database, layout } = context;
  const store = await SnapshotStore.open(database, layout);
  try {
    const state = await readPreviousState(store, context);
    const before = await restore(context, store, state.before);
    // The service was not asked for the time yet.
    await publishStore({ ...context, keepsAll: true }, store, {
      repairs: context.full ? 'all' : 'damaged',
    });
    // A damaged note is the error of the streams that need it.
    await settlePending(layout, (run, name) =>
      state.committed.some(({ runId, stream }) => runId === run && stream === name),
    ).catch(() => undefined);
    // A committed stream must not be resumed: its records would count as newly read.
    for (const { runId, stream } of state.committed) await discardStreams(layout, runId, [stream]);
    return before;
  } finally {
    await store.close();
  }
}

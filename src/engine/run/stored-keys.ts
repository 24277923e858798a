import type { StreamConfig } from '../../config/config.js';
import { type SnapshotStore, storedRows } from '../../snapshot/snapshot-store.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import { writtenRule } from '../column-rules.js';
import type { RunContext } from '../run-context.js';

/** The keys of the stored records of a stream whose records change until they have ended. */
export interface StoredKeys {
  /** To be asked for by id: those that may still change, and {@link StoredKeys.undetailed}. */
  readonly asked: readonly string[];
  /** Those that have ended, and whose details were never read. */
  readonly undetailed: ReadonlySet<string>;
  /** Those that a page brings in vain. With `--full` or for a span of time, what has ended is read again too. */
  skipped(context: Pick<RunContext, 'full' | 'range'>): ReadonlySet<string>;
}

export const noStoredKeys: StoredKeys = { asked: [], undetailed: new Set(), skipped: () => new Set() };

/** The columns that tell whether a record has its details; empty if nothing that is kept could tell. */
function tellingColumns({ reads, columns, contract }: StreamConfig): readonly string[] {
  // A contract may leave out new columns: then no reading would ever bring what is asked for.
  if (contract.columns !== 'evolve') return [];
  return (reads.details ?? []).filter((field) => writtenRule(columns, { place: 'envelope', field })?.drop !== true);
}

export async function storedKeysOf(
  store: SnapshotStore,
  config: StreamConfig,
  state: StreamState,
): Promise<StoredKeys> {
  const { unfinished, details } = config.reads;
  const [key] = state.key;
  if (unfinished === undefined || key === undefined) return noStoredKeys;
  const telling = tellingColumns(config);
  const base = new Set([key, ...unfinished.watched]);
  const asked: string[] = [];
  const undetailed = new Set<string>();
  const all = new Set<string>();
  for await (const record of storedRows(store, state, [...base, ...telling])) {
    const id = String(record[key]);
    if (details !== undefined) all.add(id);
    const isOpen = unfinished.is(record);
    const hasDetails = Object.entries(record).some(([name, value]) => !base.has(name) && value !== null);
    if (!isOpen && telling.length > 0 && !hasDetails) undetailed.add(id);
    if (isOpen || undetailed.has(id)) asked.push(id);
  }
  const skipped = ({ full, range }: Pick<RunContext, 'full' | 'range'>) =>
    full || range !== undefined ? new Set(details === undefined ? [] : asked) : all;
  return { asked, undetailed, skipped };
}

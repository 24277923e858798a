import { heldTexts } from '../../snapshot/forget.js';
import { SnapshotStore } from '../../snapshot/snapshot-store.js';
import type { Database } from '../../storage/duckdb.js';
import type { JobLayout } from '../../storage/layout.js';
import { filesWith } from './find-value-files.js';
import { type ErasedKeys, ownKeys } from './ledgers.js';

type Erasure = ErasedKeys & {
  readonly layout: JobLayout;
  readonly request: { readonly stream: string | undefined };
};

/** The texts that show whether a file still has data of the people; of other streams, those that their rows have too. */
async function searchTexts(
  store: SnapshotStore,
  erasure: Erasure,
  texts: readonly string[],
): Promise<{ searched: string[]; others: string[] }> {
  const keys = new Set(ownKeys(erasure));
  const shared = new Set<string>();
  const others: string[] = [];
  for (const state of (await store.state()).streams.values()) {
    const isTarget = erasure.targets.some((target) => target.state.stream === state.stream);
    const { whole, parts } = await heldTexts(store, state, texts);
    for (const text of parts) shared.add(text);
    // Another person may have had the same: who was merged into this one.
    for (const text of whole) if (!isTarget || !keys.has(text)) shared.add(text);
    if (isTarget) continue;
    if ([...whole].some((text) => keys.has(text))) others.push(state.stream);
  }
  return { searched: texts.filter((text) => !shared.has(text)), others };
}

/** The result of a search for copies of erased rows. */
interface FoundCopies {
  /** How many texts were searched for. */
  readonly searched: number;
  /** Files that have one of them. */
  readonly files: string[];
  /** Other streams that have rows with one of the keys. */
  readonly others: string[];
}

/**
 * Searches every file of a job for texts that erased rows had. The store must be closed.
 * @param texts of the rows, keys first
 */
export async function findCopies(database: Database, erasure: Erasure, texts: readonly string[]): Promise<FoundCopies> {
  const { layout, request } = erasure;
  const store = await SnapshotStore.open(database, layout);
  const searching = store.onFewThreads(() => searchTexts(store, erasure, texts));
  const { searched, others } = await searching.finally(() => store.close());
  // Streams share files: a search would find what another stream still has.
  if (request.stream !== undefined && others.length > 0) return { searched: 0, files: [], others };
  const reader = await database.connect();
  const files = await store.onFewThreads(() => filesWith(reader, layout, searched)).finally(() => reader.close());
  return { searched: searched.length, files, others };
}

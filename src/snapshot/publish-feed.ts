import { narrows } from '../rows/widen.js';
import { type Feed, type FeedChanges, readFeed, writeFeed } from '../store/feed.js';
import type { JobLayout } from '../store/layout.js';
import type { StoreState, StreamState } from './snapshot-store.js';

/** The changes of a stream's last commit. */
function lastChanges({ run_id, sequence, synced_at, changes, columns }: StreamState): FeedChanges {
  const rows = changes.reduce((sum, file) => sum + file.rows, 0);
  return { run_id, sequence, synced_at, rows, files: changes.map(({ path }) => path), columns };
}

/** The earlier changes in the feed, with their columns; none if the new commit does not continue them. */
function earlierChanges(feed: Feed | undefined, storeId: string, state: StreamState): FeedChanges[] {
  // A rewritten stream has lost values, which must disappear in destinations too. Changes alone cannot do that.
  if (feed?.store_id !== storeId || feed.sequence >= state.sequence || state.rewritten === true) return [];
  // Changes may reach further back than the store, so nobody knows whether their texts fit.
  if (narrows(feed.columns, state.columns)) return [];
  let following = feed.columns;
  const filled: FeedChanges[] = [];
  for (const entry of [...feed.changes].reverse()) {
    following = entry.columns ?? following;
    filled.unshift({ ...entry, columns: following });
  }
  return filled;
}

/** Leaves out the columns of an entry if the next entry, or for the last one the feed, has the same. */
function withoutRepeats(changes: readonly FeedChanges[], columns: Feed['columns']): FeedChanges[] {
  let following = JSON.stringify(columns);
  return [...changes]
    .reverse()
    .map(({ columns: own, ...entry }) => {
      const text = JSON.stringify(own);
      if (text === following) return entry;
      following = text;
      return { ...entry, columns: own };
    })
    .reverse();
}

/**
 * Brings a stream's feed up to date with its last commit. Repeating it does no harm.
 * @param changesBefore the first characters of a run id: changes of runs with smaller ids leave the feed
 */
export async function publishFeed(
  layout: JobLayout,
  { id }: StoreState,
  state: StreamState,
  changesBefore: string,
): Promise<void> {
  const feed = await readFeed(layout, state.stream).catch(() => undefined);
  const snapshot = state.snapshot.map(({ path, rows }) => ({ path, rows }));
  if (feed?.store_id === id && feed.run_id === state.run_id && feed.sequence === state.sequence) {
    const [last, changes] = [feed.changes.at(-1), lastChanges(state)];
    const told = [feed.snapshot, last?.files];
    if (JSON.stringify(told) === JSON.stringify([snapshot, changes.files])) return;
    // The same commit in other files: they were restored from the store.
    await writeFeed(layout, {
      ...feed,
      snapshot,
      changes: withoutRepeats([...feed.changes.slice(0, -1), changes], state.columns),
    });
    return;
  }
  const earlier = earlierChanges(feed, id, state);
  const lastGone = earlier.findLastIndex(({ run_id }) => run_id < changesBefore);
  const kept = earlier.slice(lastGone + 1);
  // If the earlier changes are unknown, a destination that is more than one commit behind gets everything.
  const unknownBefore = earlier.length === 0 || feed === undefined ? state.sequence - 1 : feed.complete_since;
  const since = state.rewritten === true ? state.sequence : (earlier[lastGone]?.sequence ?? unknownBefore);
  await writeFeed(layout, {
    version: 1,
    stream: state.stream,
    store_id: id,
    run_id: state.run_id,
    sequence: state.sequence,
    synced_at: state.synced_at,
    rows: state.rows,
    key: state.key,
    columns: state.columns,
    definition: state.definition ?? {},
    snapshot,
    changes: withoutRepeats([...kept, lastChanges(state)], state.columns),
    complete_since: since,
  });
}

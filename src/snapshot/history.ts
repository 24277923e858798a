import { type Column, ColumnSet } from '../columns/columns.js';
import { rowKey } from '../columns/row-hash.js';
import { widen } from '../columns/widen.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import type { DiffTask } from './diff.js';
import type { SnapshotStore } from './snapshot-store.js';
import { beforeTable, changesTable, commitTimesTable, storeTable } from './store-tables.js';
import type { StreamState } from './stream-state.js';
import type { WorkTables } from './unify-parts.js';

/*
 * The history of a stream consists of three tables. The table of changes has each change that is not older than
 * `publish.history`, but not the inserts of the first commit. The earlier table (`before_<stream>`) has, for each key with changes,
 * the row before its first change. The stream's own table has the row of each key without changes; when that key changes, its row is
 * copied to the earlier table. So the first load is stored once, as rows, and no reader takes it for changes.
 */

/**
 * The time of a commit, for everything that readers see of it. The times of a store always rise, also if the clock does not.
 * @param clockTime ISO 8601
 */
export async function nextCommitTime({ session }: SnapshotStore, clockTime: string): Promise<string> {
  const times = `SELECT committed_at AS moment FROM ${commitTimesTable} UNION ALL SELECT finished_at FROM ${storeTable('runs', 'cdsync')}`;
  const [row] = await session.rows(
    `SELECT greatest(${sqlText(clockTime)}::TIMESTAMPTZ, max(moment) + INTERVAL 1 MILLISECOND)::VARCHAR AS next FROM (${times})`,
  );
  return String(row?.next);
}

/** Records when a stream got its new snapshot. @param committedAt of {@link nextCommitTime} */
export async function recordCommitTime(store: SnapshotStore, state: StreamState, committedAt: string): Promise<void> {
  const time = `${sqlText(committedAt)}::TIMESTAMPTZ`;
  await store.session.run(
    `INSERT INTO ${commitTimesTable} (stream, run_id, synced_at, committed_at, kept_from)
     VALUES (${sqlText(state.stream)}, ${sqlText(state.run_id)}, ${sqlText(state.synced_at)}::TIMESTAMPTZ, ${time}, ${time})`,
  );
}

/** SQL that creates the earlier table of a stream. */
export function createEarlier(stream: string, columns: readonly Pick<Column, 'name' | 'type'>[]): string {
  const typed = columns.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`);
  return `CREATE OR REPLACE TABLE ${beforeTable(stream)} (_run_id VARCHAR, _synced_at TIMESTAMPTZ, ${typed.join(', ')})`;
}

/**
 * Copies rows to the earlier table before they change, if the table of changes has nothing of their keys: the row in the
 * stream's own table is then the only record of their former values. Call it before the new changes are inserted.
 * @param tables `before` has these rows, as the stream's own table has them
 */
export async function keepPreviousRows(
  { session }: SnapshotStore,
  { stream, key, columns, previous }: Pick<DiffTask, 'stream' | 'key' | 'columns'> & { readonly previous: StreamState },
  { changed, before }: Pick<WorkTables, 'changed' | 'before'>,
): Promise<void> {
  const names = columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const rows = `SELECT _run_id, _synced_at, ${widen(previous.columns, columns, 'table')} FROM ${before}`;
  await session.run(
    `INSERT INTO ${beforeTable(stream)} (_run_id, _synced_at, ${names})
     SELECT _run_id, _synced_at, ${names} FROM (${rows})
     WHERE ${rowKey(key)} IN (SELECT key FROM ${changed} WHERE op <> 'insert'
       EXCEPT SELECT ${rowKey(key)} FROM ${changesTable(stream)} WHERE ${rowKey(key)} IN (SELECT key FROM ${changed}))`,
  );
}

/** Removes the changes before `horizon` (ISO 8601), but keeps each row's values at that time. */
export async function pruneHistory(store: SnapshotStore, state: StreamState, horizon: string): Promise<void> {
  const { session } = store;
  const limit = `${sqlText(horizon)}::TIMESTAMPTZ`;
  const { first } = state;
  const isFirstOld = first !== undefined && first !== null && Date.parse(first.synced_at) < Date.parse(horizon);
  const old = await session.number(`SELECT count(*) FROM ${changesTable(state.stream)} WHERE _synced_at < ${limit}`);
  if (old > 0) await pruneChanges(store, state, limit);
  if (isFirstOld) {
    const aged = { ...state, first: null };
    await store.rememberStream(aged);
  }
  if (old > 0 || isFirstOld) await pruneMoments(store, state.stream, limit);
}

async function pruneChanges({ session }: SnapshotStore, state: StreamState, limit: string): Promise<void> {
  const changes = changesTable(state.stream);
  const key = rowKey(state.key);
  const names = ColumnSet.restore(state.columns)
    .list.map(({ name }) => quoteIdentifier(name))
    .join(', ');
  const earlier = beforeTable(state.stream);
  const recent = `SELECT ${key} FROM ${changes} WHERE _synced_at >= ${limit}`;
  // A key without a recent change needs no row here: the stream's own table has it, or it is deleted.
  await session.run(
    `DELETE FROM ${earlier} WHERE ${key} NOT IN (${recent})
       OR ${key} IN (SELECT ${key} FROM ${changes} WHERE _synced_at < ${limit})`,
  );
  await session.run(
    `INSERT INTO ${earlier} (_run_id, _synced_at, ${names})
     SELECT _run_id, _synced_at, ${names} FROM (
       SELECT * FROM ${changes} WHERE _synced_at < ${limit} AND ${key} IN (${recent})
       QUALIFY row_number() OVER (PARTITION BY ${key} ORDER BY _synced_at DESC) = 1)
     WHERE _op <> 'delete'`,
  );
  await session.run(`DELETE FROM ${changes} WHERE _synced_at < ${limit}`);
}

/**
 * The history gives the last snapshot before the horizon from there on, and no earlier one. Its own changes are gone, so it
 * never again counts as kept from its commit on.
 */
async function pruneMoments({ session }: SnapshotStore, stream: string, limit: string): Promise<void> {
  const isOfStream = `stream = ${sqlText(stream)}`;
  const last = `(SELECT max(synced_at) FROM ${commitTimesTable} WHERE ${isOfStream} AND synced_at < ${limit})`;
  await session.run(
    `UPDATE ${commitTimesTable} SET kept_from = CASE WHEN synced_at = ${last} THEN greatest(kept_from, ${limit}, committed_at + INTERVAL 1 MILLISECOND) END
     WHERE ${isOfStream} AND synced_at <= ${last}`,
  );
  const keptFrom = `(SELECT min(kept_from) FROM ${commitTimesTable} WHERE ${isOfStream})`;
  const committedAt = `coalesce((SELECT max(committed_at) FROM ${commitTimesTable} AS m WHERE m.${isOfStream} AND m.run_id = s.run_id),
       (SELECT max(finished_at) FROM ${storeTable('runs', 'cdsync')} AS r WHERE r.run_id = s.run_id))`;
  await session.run(
    `UPDATE ${storeTable('streams', 'cdsync')} AS s SET is_kept = false WHERE ${isOfStream} AND is_kept AND ${committedAt} < ${keptFrom}`,
  );
}

/** The runs whose changes of a stream the store still has. */
export async function runsWithChanges({ session }: SnapshotStore, stream: string): Promise<ReadonlySet<string>> {
  const rows = await session.rows(
    `SELECT run_id FROM ${commitTimesTable} WHERE stream = ${sqlText(stream)} AND kept_from = committed_at`,
  );
  return new Set(rows.map(({ run_id }) => String(run_id)));
}

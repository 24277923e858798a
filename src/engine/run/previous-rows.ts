import { ColumnSet, type StoredColumn } from '../../columns/columns.js';
import { rowKey } from '../../columns/row-hash.js';
import { widen } from '../../columns/widen.js';
import { keyColumn, quoteIdentifier, sqlText } from '../../core/sql.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { beforeTable, changesTable, commitTimesTable, storeTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';

export interface PreviousTask {
  /** The stream as the last run left it; undefined before its first. */
  readonly stored: StreamState | undefined;
  /** Its present columns: the rows get them. */
  readonly columns: readonly StoredColumn[];
  /** The run that had last changed the stream when the query last read it; undefined if it never has. */
  readonly seen: string | undefined;
  /** SQL for its present rows. */
  readonly present: string;
}

interface PreviousRows {
  /** SQL for the rows. */
  readonly rows: string;
  /** Which rows they are: the run that left them; empty for none. */
  readonly version: string;
  /** The store no longer has the rows that the query has seen; these are the oldest that it has. */
  readonly isGone: boolean;
}

/** SQL for the rows of a stream as a run left it, from its history. */
function rowsAt({ stream, columns, key }: StreamState, committedAt: string): string {
  const names = ColumnSet.restore(columns)
    .list.map(({ name }) => quoteIdentifier(name))
    .join(', ');
  const id = rowKey(key);
  const changes = changesTable(stream);
  const images = `SELECT _op, _run_id, ${names} FROM ${changes}
     UNION ALL SELECT 'insert', _run_id, ${names} FROM ${beforeTable(stream)}
     UNION ALL SELECT 'insert', _run_id, ${names} FROM ${storeTable(stream)} WHERE ${id} NOT IN (SELECT ${id} FROM ${changes})`;
  return `SELECT ${names} FROM (SELECT *, ${id} AS ${keyColumn} FROM (${images})) AS _cdsync_i
     JOIN (SELECT run_id AS _cdsync_run, committed_at AS _cdsync_at FROM ${commitTimesTable} WHERE stream = ${sqlText(stream)}) ON _cdsync_run = _run_id
     WHERE _cdsync_at <= ${sqlText(committedAt)}::TIMESTAMPTZ
     QUALIFY row_number() OVER (PARTITION BY ${keyColumn} ORDER BY _cdsync_at DESC) = 1 AND _op <> 'delete'`;
}

/** The snapshots of a stream whose rows the store still has, the oldest first. */
async function keptSnapshots(
  { session }: SnapshotStore,
  stream: string,
): Promise<readonly { readonly run: string; readonly at: string }[]> {
  const rows = await session.rows(
    `SELECT run_id, committed_at::VARCHAR AS at FROM ${commitTimesTable}
     WHERE stream = ${sqlText(stream)} AND kept_from IS NOT NULL ORDER BY committed_at`,
  );
  return rows.map(({ run_id, at }) => ({ run: String(run_id), at: String(at) }));
}

/**
 * The rows of a stream that a query compares it with. A run that failed, was held or left the query out moves nothing: the next one
 * compares with the same rows, so that it misses no change and sees none twice.
 */
export async function previousRows(
  store: SnapshotStore,
  { stored, columns, seen, present }: PreviousTask,
): Promise<PreviousRows> {
  if (seen === undefined) {
    return { rows: `SELECT ${widen([], columns, 'table')} WHERE false`, version: '', isGone: false };
  }
  if (stored === undefined) return { rows: present, version: seen, isGone: true };
  const shaped = (rows: string) => `SELECT ${widen(stored.columns, columns, 'table')} FROM ${rows}`;
  const last = shaped(storeTable(stored.stream));
  if (seen === stored.run_id) return { rows: last, version: seen, isGone: false };
  const kept = await keptSnapshots(store, stored.stream);
  const wanted = kept.find(({ run }) => run === seen);
  const [oldest] = kept;
  const snapshot = wanted ?? oldest;
  if (snapshot === undefined || snapshot.run === stored.run_id)
    return { rows: last, version: stored.run_id, isGone: true };
  return { rows: shaped(`(${rowsAt(stored, snapshot.at)})`), version: snapshot.run, isGone: wanted === undefined };
}

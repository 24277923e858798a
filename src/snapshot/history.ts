import { quoteIdentifier, sqlText } from '../core/sql.js';
import { type Column, ColumnSet } from '../rows/columns.js';
import { rowKey } from '../rows/row-hash.js';
import { widen } from '../rows/widen.js';
import type { Session } from '../store/duckdb.js';
import { beforeHistory } from '../store/duckdb-errors.js';
import type { DiffTask } from './diff.js';
import {
  changesTable,
  earlierTable,
  momentsTable,
  type SnapshotStore,
  type StreamState,
  storeName,
} from './snapshot-store.js';
import type { WorkTables } from './unify-parts.js';

/*
 * The history of a stream consists of three tables. The table of changes has each change that is not older than
 * `publish.history`, but not the inserts of the first commit. The earlier table (`before_<stream>`) has, for each key with changes,
 * the row before its first change. The stream's own table has the row of each key without changes; when that key changes, its row is
 * copied to the earlier table. So the inserts of the first commit are the rows in both that have its time: no other commit has it.
 */

/** Creates the view of a stream's changes, unless an older cdsync made a table of them. */
async function defineChanges({ session }: SnapshotStore, { stream, first, columns }: StreamState): Promise<void> {
  if (first === undefined) return;
  const names = ColumnSet.restore(columns).list.map(({ name }) => quoteIdentifier(name));
  const shown = ['_run_id', '_synced_at', ...names].join(', ');
  const tables = first === null ? [] : [`_cdsync.${quoteIdentifier(`before_${stream}`)}`, quoteIdentifier(stream)];
  const inserts = tables.map(
    (table) =>
      `SELECT 'insert', ${shown} FROM ${table} WHERE _synced_at = ${sqlText(String(first?.synced_at))}::TIMESTAMPTZ`,
  );
  const later = `SELECT _op, ${shown} FROM _cdsync.${quoteIdentifier(`changes_${stream}`)}`;
  await session.run(
    `CREATE OR REPLACE VIEW ${quoteIdentifier(`${stream}__changes`)} AS ${[later, ...inserts].join(' UNION ALL ')}`,
  );
}

/** Says what the tables of a stream's past are. */
async function commentPast(session: Session, { stream, first }: StreamState): Promise<void> {
  const changes = sqlText(`every insert, update and delete of ${stream} (_op), as far back as publish.history`);
  const history = sqlText(`every version of every row of ${stream}; _valid_to is NULL for the present one`);
  const kind = first === undefined ? 'TABLE' : 'VIEW';
  await session.run(`COMMENT ON ${kind} ${quoteIdentifier(`${stream}__changes`)} IS ${changes}`);
  await session.run(`COMMENT ON VIEW ${quoteIdentifier(`${stream}__history`)} IS ${history}`);
}

/** Creates the views and the macro of a stream's past. Call it again when the columns or the first commit have changed. */
export async function defineHistory(store: SnapshotStore, state: StreamState): Promise<void> {
  const { session } = store;
  const { stream } = state;
  const columns = ColumnSet.restore(state.columns).list.filter(({ untracked }) => !untracked);
  const names = columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const key = rowKey(state.key);
  const [rows, history] = [stream, `${stream}__history`].map(quoteIdentifier);
  const changes =
    state.first === undefined
      ? quoteIdentifier(`${stream}__changes`)
      : `_cdsync.${quoteIdentifier(`changes_${stream}`)}`;
  const before = `_cdsync.${quoteIdentifier(`before_${stream}`)}`;
  const stamp = '_run_id, _synced_at';
  // Names are not qualified: readers attach the published file under a name of their own.
  await session.run(`USE ${storeName}`);
  try {
    await defineChanges(store, state);
    await session.run(
      `CREATE OR REPLACE VIEW ${history} AS
       SELECT ${names}, _run_id, _synced_at AS _valid_from,
         lead(_synced_at) OVER (PARTITION BY ${key} ORDER BY _synced_at) AS _valid_to
       FROM (SELECT _op, ${stamp}, ${names} FROM ${changes}
         UNION ALL SELECT 'insert', ${stamp}, ${names} FROM ${before}
         UNION ALL SELECT 'insert', ${stamp}, ${names} FROM ${rows} WHERE ${key} NOT IN (SELECT ${key} FROM ${changes}))
       QUALIFY _op <> 'delete'`,
    );
    await commentPast(session, state);
    const ts = parameterName(state);
    const moments = `FROM _cdsync.moments WHERE stream = ${sqlText(stream)}`;
    const tooEarly = sqlText(`${stream}${beforeHistory}; the first that is kept is `);
    await session.run(
      `CREATE OR REPLACE MACRO ${quoteIdentifier(`${stream}_as_of`)}(${ts}) AS TABLE
       SELECT ${columns.map(({ name }) => `h.${quoteIdentifier(name)}`).join(', ')}, h._run_id, h._valid_from AS _synced_at
       FROM ${history} AS h, (SELECT CASE WHEN ${ts}::TIMESTAMPTZ < (SELECT min(committed_at) ${moments})
           THEN error(${tooEarly} || (SELECT min(committed_at)::VARCHAR ${moments}))::TIMESTAMPTZ
           ELSE (SELECT max(synced_at) ${moments} AND committed_at <= ${ts}::TIMESTAMPTZ) END AS at) AS moment
       WHERE h._valid_from <= moment.at AND (h._valid_to IS NULL OR moment.at < h._valid_to)`,
    );
  } finally {
    await session.run('USE memory');
  }
}

/** A name that no column has. DuckDB would confuse the parameter with a column of the same name. */
function parameterName({ columns }: StreamState): string {
  const taken = new Set(ColumnSet.restore(columns).list.map(({ name }) => name.toLowerCase()));
  let name = 'ts';
  while (taken.has(name)) name = `${name}_`;
  return name;
}

/** Records when a stream got its new snapshot. */
export async function recordMoment(store: SnapshotStore, state: StreamState, committedAt: string): Promise<void> {
  const times = [state.synced_at, committedAt].map((time) => `${sqlText(time)}::TIMESTAMPTZ`).join(', ');
  await store.session.run(
    `INSERT INTO ${momentsTable} VALUES (${sqlText(state.stream)}, ${sqlText(state.run_id)}, ${times})`,
  );
}

/** Starts the history of streams that an older cdsync, without history, has committed. It begins with their present rows. */
export async function beginHistories(store: SnapshotStore, states: Iterable<StreamState>): Promise<void> {
  const known = await store.session.rows(`SELECT DISTINCT stream FROM ${momentsTable}`);
  const names = new Set(known.map(({ stream }) => String(stream)));
  for (const state of states) {
    if (names.has(state.stream)) continue;
    const columns = ColumnSet.restore(state.columns).list;
    await store.session.run(createEarlier(state.stream, columns));
    await defineHistory(store, state);
    await recordMoment(store, state, state.synced_at);
  }
}

/** SQL that creates the earlier table of a stream. */
export function createEarlier(stream: string, columns: readonly Pick<Column, 'name' | 'type'>[]): string {
  const typed = columns.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`);
  return `CREATE OR REPLACE TABLE ${earlierTable(stream)} (_run_id VARCHAR, _synced_at TIMESTAMPTZ, ${typed.join(', ')})`;
}

/**
 * Copies rows to the earlier table before they change, if the table of changes has nothing of their keys: the row in the
 * stream's own table is then the only record of what they were. Call it before the new changes are inserted.
 * @param tables `before` has these rows, as the stream's own table has them
 */
export async function keepEarlier(
  { session }: SnapshotStore,
  { stream, key, columns, previous }: Pick<DiffTask, 'stream' | 'key' | 'columns'> & { readonly previous: StreamState },
  { changed, before }: Pick<WorkTables, 'changed' | 'before'>,
): Promise<void> {
  const names = columns.map(({ name }) => quoteIdentifier(name)).join(', ');
  const rows = `SELECT _run_id, _synced_at, ${widen(previous.columns, columns, 'table')} FROM ${before}`;
  await session.run(
    `INSERT INTO ${earlierTable(stream)} (_run_id, _synced_at, ${names})
     SELECT _run_id, _synced_at, ${names} FROM (${rows})
     WHERE ${rowKey(key)} IN (SELECT key FROM ${changed} WHERE op <> 'insert'
       EXCEPT SELECT ${rowKey(key)} FROM ${changesTable(previous)} WHERE ${rowKey(key)} IN (SELECT key FROM ${changed}))`,
  );
}

/** Removes the changes before `horizon` (ISO 8601), but keeps what each row was at that time. */
export async function pruneHistory(store: SnapshotStore, state: StreamState, horizon: string): Promise<void> {
  const { session } = store;
  const limit = `${sqlText(horizon)}::TIMESTAMPTZ`;
  const { first } = state;
  const isFirstOld = first !== undefined && first !== null && Date.parse(first.synced_at) < Date.parse(horizon);
  const old = await session.number(`SELECT count(*) FROM ${changesTable(state)} WHERE _synced_at < ${limit}`);
  if (old > 0) await pruneChanges(store, state, limit);
  if (isFirstOld) {
    const aged = { ...state, first: null };
    await store.rememberStream(aged);
    await defineHistory(store, aged);
  }
  if (old > 0 || isFirstOld) await pruneMoments(store, state.stream, limit);
}

async function pruneChanges({ session }: SnapshotStore, state: StreamState, limit: string): Promise<void> {
  const changes = changesTable(state);
  const key = rowKey(state.key);
  const names = ColumnSet.restore(state.columns)
    .list.map(({ name }) => quoteIdentifier(name))
    .join(', ');
  const earlier = earlierTable(state.stream);
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

/** The last snapshot before the horizon counts as if it had been taken at that time. */
async function pruneMoments({ session }: SnapshotStore, stream: string, limit: string): Promise<void> {
  const own = `stream = ${sqlText(stream)}`;
  const [row] = await session.rows(
    `SELECT max(synced_at)::VARCHAR AS last FROM ${momentsTable} WHERE ${own} AND synced_at < ${limit}`,
  );
  if (row?.last === null || row?.last === undefined) return;
  const last = `${sqlText(String(row.last))}::TIMESTAMPTZ`;
  await session.run(`DELETE FROM ${momentsTable} WHERE ${own} AND synced_at < ${last}`);
  await session.run(
    `UPDATE ${momentsTable} SET committed_at = greatest(committed_at, ${limit}) WHERE ${own} AND synced_at = ${last}`,
  );
}

/** How fresh each stream is, for readers of the published file. */
export async function defineFreshness({ session }: SnapshotStore): Promise<void> {
  await session.run(`USE ${storeName}`);
  try {
    await session.run(
      `CREATE OR REPLACE VIEW cdsync.freshness AS
       SELECT stream, arg_max(run_id, started_at) AS run_id, max(started_at) AS checked_at,
         max(started_at) FILTER (WHERE changed) AS changed_at, arg_max(rows, started_at) AS rows,
         now() - max(started_at) AS age
       FROM cdsync.streams JOIN cdsync.runs USING (run_id) GROUP BY stream`,
    );
  } finally {
    await session.run('USE memory');
  }
}

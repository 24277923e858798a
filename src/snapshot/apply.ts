import { ColumnSet, holdNegativeZero, type StoredColumn } from '../columns/columns.js';
import { rowKey } from '../columns/row-hash.js';
import { sameColumns, widen } from '../columns/widen.js';
import { fileText, fileTexts, keyColumn, quoteIdentifier, sqlText } from '../core/sql.js';
import { withRowsOf } from '../storage/large-rows.js';
import { type ParquetCompression, type ParquetFile, writeParquet } from '../storage/parquet.js';
import { type Difference, type DiffTask, hashesComparable, previousRows } from './diff.js';
import { createEarlier, keepPreviousRows } from './history.js';
import { rangesOf } from './large-rows.js';
import { type SnapshotFiles, snapshotRows } from './snapshot-files.js';
import type { SnapshotStore } from './snapshot-store.js';
import { beforeTable, changesTable, internalSchema, keysTable, storeTable } from './store-tables.js';
import type { StreamState } from './stream-state.js';
import type { WorkTables } from './unify-parts.js';

/** Above this share of changed rows a table is rebuilt: that is cheaper than deleting and inserting, and leaves no holes. */
const rebuildShare = 0.1;

export interface ApplyTask extends DiffTask, SnapshotFiles {
  readonly difference: Difference;
  /** The file for the changes. */
  readonly changesPath: string;
  readonly compression: ParquetCompression;
  readonly runId: string;
  /** When the run began or, if later, the time of the previous snapshot: `_synced_at` never goes back. */
  readonly syncedAt: string;
}

const changeColumns = ['_op', '_run_id', '_synced_at'];
const rowColumns = ['_run_id', '_synced_at', '_first_seen_at'];

function names(columns: readonly StoredColumn[], prefix = ''): string {
  return columns.map(({ name }) => `${prefix}${quoteIdentifier(name)}`).join(', ');
}

function readFiles(files: readonly ParquetFile[]): string {
  return `read_parquet(${fileTexts(files.map(({ path }) => path))})`;
}

function stamp({ runId, syncedAt }: ApplyTask): string {
  return `${sqlText(runId)} AS _run_id, ${sqlText(syncedAt)}::TIMESTAMPTZ AS _synced_at`;
}

type BeforeTask = Pick<ApplyTask, 'stream' | 'previous' | 'columns' | 'key' | 'difference' | 'recordBytes'>;

/**
 * Copies the rows of the previous snapshot that change or go. To find them takes a pass over all columns of the stream's table, and
 * its changes, its history and its new rows need them.
 */
export async function copyBefore({ session }: SnapshotStore, task: BeforeTask, tables: WorkTables): Promise<void> {
  const { updated, deleted } = task.difference;
  const table = storeTable(task.stream);
  const some = `${rowKey(task.key)} IN (SELECT key FROM ${tables.changed} WHERE op <> 'insert')`;
  const ranges = updated + deleted === 0 ? ['false'] : await rangesOf(session, { table, rowBytes: task.recordBytes });
  const rows = (range: string) => `SELECT * FROM ${table} WHERE ${range} AND ${some}`;
  const [first = 'false', ...more] = ranges;
  await session.run(`CREATE OR REPLACE TEMP TABLE ${tables.before} AS ${rows(first)}`);
  for (const range of more) await session.run(`INSERT INTO ${tables.before} ${rows(range)}`);
}

/** The table to look into for rows of the previous snapshot that change or go, after {@link writeChanges}. It may have others, too. */
export function tableBefore(task: ApplyTask, tables: WorkTables): string {
  return isRebuilt(task) ? storeTable(task.stream) : tables.before;
}

/** SQL for the rows of {@link tableBefore}: of large texts in chunks of few rows, which only files give. */
function rowsBefore(task: ApplyTask, tables: WorkTables): string {
  const { key, stream, previous } = task;
  if (!isRebuilt(task) || task.previousFiles === undefined || previous?.large_texts !== true)
    return tableBefore(task, tables);
  const stamps = `SELECT ${rowKey(key)} AS _cdsync_stamped, ${rowColumns.join(', ')} FROM ${storeTable(stream)}`;
  return `(SELECT * FROM ${previousRows(task)} AS _cdsync_f JOIN (${stamps}) ON ${rowKey(key)} = _cdsync_stamped)`;
}

/**
 * Writes every change with its operation: the new row or, for a delete, the last one. A first snapshot has none: its rows change
 * nothing.
 * @param isCopied whether {@link copyBefore} was called since the comparison
 */
export async function writeChanges(
  store: SnapshotStore,
  task: ApplyTask,
  tables: WorkTables,
  isCopied: boolean,
): Promise<ParquetFile[]> {
  const { columns, previous, files } = task;
  if (previous === undefined) return [];
  if (!isCopied && !isRebuilt(task)) await copyBefore(store, task, tables);
  const { changed } = tables;
  const key = rowKey(task.key);
  // Only rows that were read can have changed. Without any, there still are columns.
  const loaded = files.length > 0 ? readFiles(files) : `(SELECT ${widen([], columns, 'file')} WHERE false)`;
  const present = `SELECT _cdsync_c.op AS _op, ${stamp(task)}, ${names(columns, '_cdsync_r.')}
     FROM (SELECT *, ${key} AS ${keyColumn} FROM ${loaded}) AS _cdsync_r
     JOIN ${changed} AS _cdsync_c ON _cdsync_r.${keyColumn} = _cdsync_c.key`;
  const gone = `SELECT _cdsync_c.op AS _op, ${stamp(task)}, ${names(columns, '_cdsync_r.')}
     FROM (SELECT *, ${key} AS ${keyColumn} FROM (SELECT ${widen(previous.columns, columns, 'file')} FROM ${rowsBefore(task, tables)})) AS _cdsync_r
     JOIN ${changed} AS _cdsync_c ON _cdsync_r.${keyColumn} = _cdsync_c.key WHERE _cdsync_c.op = 'delete'`;
  const query = task.difference.deleted > 0 ? `${present} UNION ALL ${gone}` : present;
  const form = {
    compression: task.compression,
    keepsZeroSigns: holdNegativeZero(columns),
    rowBytes: task.recordBytes,
  };
  return [await writeParquet(store.session, query, task.changesPath, form)];
}

/** SQL for rows of the changes file, with the types of the tables. */
function changeRows(task: ApplyTask, extra: string, where: string): string {
  const columns = widen(task.columns, task.columns, 'table');
  return `SELECT ${columns}${extra} FROM read_parquet(${fileText(task.changesPath)}) WHERE ${where}`;
}

async function addColumns(
  store: SnapshotStore,
  table: string,
  before: readonly StoredColumn[],
  columns: readonly StoredColumn[],
): Promise<void> {
  const knownNames = new Set(before.map(({ name }) => name));
  for (const { name, type } of ColumnSet.restore(columns).list) {
    if (!knownNames.has(name))
      await store.session.run(`ALTER TABLE ${table} ADD COLUMN ${quoteIdentifier(name)} ${type}`);
  }
}

/** Whether the stored columns keep their order and types, so that new ones can simply be added. */
function onlyAdds(task: Pick<ApplyTask, 'previous' | 'columns'>): boolean {
  const before = task.previous?.columns ?? [];
  return sameColumns(before, task.columns.slice(0, before.length), 'table');
}

/** The first commit of the stream: this one, if the store knows nothing of it. */
export function firstCommitOf({ previous, runId, syncedAt }: ApplyTask): StreamState['first'] {
  return previous === undefined ? { run_id: runId, synced_at: syncedAt } : previous.first;
}

/** Creates the tables of a stream's past. Those of its rows and keys are created with their contents. */
async function createTables(store: SnapshotStore, task: ApplyTask): Promise<void> {
  const typed = ColumnSet.restore(task.columns).list.map(({ name, type }) => `${quoteIdentifier(name)} ${type}`);
  const changes = changesTable(task.stream);
  const times = '_run_id VARCHAR, _synced_at TIMESTAMPTZ';
  await store.session.run(`CREATE OR REPLACE TABLE ${changes} (_op VARCHAR, ${times}, ${typed.join(', ')})`);
  await store.session.run(createEarlier(task.stream, ColumnSet.restore(task.columns).list));
}

/** Replaces a table by the result of a query, which may read that table. */
async function replaceTable({ session }: SnapshotStore, name: string, query: string, schema?: string): Promise<void> {
  const next = storeTable(`${name}__next`, schema);
  await session.run(`CREATE OR REPLACE TABLE ${next} AS ${query}`);
  await session.run(`DROP TABLE ${storeTable(name, schema)}`);
  await session.run(`ALTER TABLE ${next} RENAME TO ${quoteIdentifier(name)}`);
}

async function prepareTables(store: SnapshotStore, task: ApplyTask, rebuild: boolean): Promise<void> {
  const { previous, columns, stream } = task;
  if (previous === undefined) return createTables(store, task);
  const changes = changesTable(stream);
  const earlier = beforeTable(stream);
  if (onlyAdds(task)) {
    await addColumns(store, changes, previous.columns, columns);
    await addColumns(store, earlier, previous.columns, columns);
    if (!rebuild) await addColumns(store, storeTable(stream), previous.columns, columns);
    return undefined;
  }
  const widened = widen(previous.columns, columns, 'table');
  const allChanges = `SELECT ${changeColumns.join(', ')}, ${widened} FROM ${changes}`;
  await replaceTable(store, `${stream}__changes`, allChanges);
  const allEarlier = `SELECT _run_id, _synced_at, ${widened} FROM ${earlier}`;
  return replaceTable(store, `before_${stream}`, allEarlier, internalSchema);
}

/** Rebuilds the stream's table: changed rows get the stamp of this run, the others keep theirs. */
async function rebuildRows(store: SnapshotStore, task: ApplyTask, tables: WorkTables): Promise<void> {
  const { columns, stream, files, previous } = task;
  const { changed } = tables;
  const key = rowKey(task.key);
  const syncedAt = `${sqlText(task.syncedAt)}::TIMESTAMPTZ`;
  if (previous === undefined) {
    const first = `SELECT ${widen(columns, columns, 'table')}, ${stamp(task)}, ${syncedAt} AS _first_seen_at FROM ${readFiles(files)}`;
    return store.session.run(`CREATE OR REPLACE TABLE ${storeTable(stream)} AS ${first}`);
  }
  const query = `SELECT ${names(columns, '_cdsync_r.')},
      CASE WHEN _cdsync_c.key IS NULL THEN _cdsync_o._run_id ELSE ${sqlText(task.runId)} END AS _run_id,
      CASE WHEN _cdsync_c.key IS NULL THEN _cdsync_o._synced_at ELSE ${syncedAt} END AS _synced_at,
      coalesce(_cdsync_o._first_seen_at, ${syncedAt}) AS _first_seen_at
    FROM (SELECT *, ${key} AS ${keyColumn} FROM (${snapshotRows(task, tables)})) AS _cdsync_r
    LEFT JOIN ${changed} AS _cdsync_c ON _cdsync_r.${keyColumn} = _cdsync_c.key
    LEFT JOIN (SELECT ${key} AS key, ${rowColumns.join(', ')} FROM ${storeTable(stream)}) AS _cdsync_o
      ON _cdsync_r.${keyColumn} = _cdsync_o.key`;
  await replaceTable(store, stream, query);
}

async function patchRows({ session }: SnapshotStore, task: ApplyTask, { before }: WorkTables): Promise<void> {
  const { columns } = task;
  const { updated, deleted } = task.difference;
  const table = storeTable(task.stream);
  const key = rowKey(task.key);
  if (updated + deleted > 0) await session.run(`DELETE FROM ${table} WHERE ${key} IN (SELECT ${key} FROM ${before})`);
  const rows = changeRows(task, `, ${key} AS ${keyColumn}`, "_op <> 'delete'");
  await session.run(
    `INSERT INTO ${table} (${names(columns)}, ${rowColumns.join(', ')})
     SELECT ${names(columns, '_cdsync_r.')}, ${stamp(task)}, coalesce(_cdsync_b._first_seen_at, ${sqlText(task.syncedAt)}::TIMESTAMPTZ)
     FROM (${rows}) AS _cdsync_r LEFT JOIN (SELECT ${key} AS key, _first_seen_at FROM ${before}) AS _cdsync_b
       ON _cdsync_r.${keyColumn} = _cdsync_b.key`,
  );
}

async function applyKeys(
  store: SnapshotStore,
  task: ApplyTask,
  { keys, changed }: WorkTables,
  rebuild: boolean,
): Promise<void> {
  const table = keysTable(task.stream);
  const { session } = store;
  if (task.unchangedRows.known === null && (rebuild || !hashesComparable(task))) {
    await session.run(`CREATE OR REPLACE TABLE ${table} AS SELECT key, hash FROM ${keys}`);
    return;
  }
  await session.run(`DELETE FROM ${table} WHERE key IN (SELECT key FROM ${changed})`);
  await session.run(`INSERT INTO ${table} SELECT key, hash FROM ${keys} WHERE key IN (SELECT key FROM ${changed})`);
}

/** Whether the comparison has found so little that the stream's table is not written again. */
export function isSmallChange(task: BeforeTask): boolean {
  const { inserted, updated, deleted, refreshed } = task.difference;
  const share = (inserted + updated + deleted) / Math.max(1, task.previous?.rows ?? 0);
  return task.previous !== undefined && share <= rebuildShare && refreshed === 0 && onlyAdds(task);
}

/** Whether the stream's table is written again. */
function isRebuilt(task: ApplyTask): boolean {
  return task.addition === undefined && !isSmallChange(task);
}

/** Whether applying the stream only deletes and inserts rows, so that other sessions may read its table at the same time. */
export function isPatch(task: ApplyTask): boolean {
  return !isRebuilt(task) && onlyAdds(task) && task.previous?.columns.length === task.columns.length;
}

/**
 * Applies the reading to a stream's tables, inside the caller's transaction. The schema is changed before the rows:
 * DuckDB refuses to change a column's type after rows were deleted in the same transaction.
 */
export async function applyStream(store: SnapshotStore, task: ApplyTask, tables: WorkTables): Promise<void> {
  await withRowsOf(store.session, task.recordBytes, () => applyRows(store, task, tables));
}

async function applyRows(store: SnapshotStore, task: ApplyTask, tables: WorkTables): Promise<void> {
  const rebuild = isRebuilt(task);
  await prepareTables(store, task, rebuild);
  if (task.previous !== undefined) {
    const before = rowsBefore(task, tables);
    await keepPreviousRows(store, { ...task, previous: task.previous }, { changed: tables.changed, before });
    const columns = [names(task.columns), ...changeColumns].join(', ');
    const rows = changeRows(task, `, ${changeColumns.join(', ')}`, 'true');
    await store.session.run(`INSERT INTO ${changesTable(task.stream)} (${columns}) ${rows}`);
  }
  if (rebuild) await rebuildRows(store, task, tables);
  else await patchRows(store, task, tables);
  await store.session.run(`DROP TABLE IF EXISTS ${tables.before}`);
  await applyKeys(store, task, tables, rebuild);
  // No one needs them any more, and a run may have many streams.
  for (const table of [tables.keys, tables.changed]) await store.session.run(`DROP TABLE ${table}`);
}

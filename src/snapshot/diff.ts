import { ColumnSet, type StoredColumn } from '../columns/columns.js';
import { hashedRows, rowKey } from '../columns/row-hash.js';
import { hashedColumns, isNewlyMasked, keepEmptyTextsAlike, sameColumns, widen } from '../columns/widen.js';
import { CdsyncError } from '../core/errors.js';
import { fileTexts, keyColumn, quoteIdentifier } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';
import { type CachedRows, hitRowsSql, missedKeysSql, type UnchangedRows } from '../storage/unchanged-rows.js';
import { keysTable, storeTable } from './store-tables.js';
import type { StreamState } from './stream-state.js';
import { hashPartitions, type WorkTables, workTables } from './unify-parts.js';

/** How a reading differs from the previous snapshot. */
export interface Difference {
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  readonly unchanged: number;
  /** Those of the unchanged rows whose untracked columns have other values than before. */
  readonly refreshed: number;
  /** Those of the unchanged rows that were cached, so that the parts lack them. */
  readonly cached: number;
  /** Rows of the new snapshot. */
  readonly rows: number;
}

export interface DiffTask {
  readonly stream: string;
  /** The previous snapshot; undefined on the first run. */
  readonly previous: StreamState | undefined;
  readonly columns: readonly StoredColumn[];
  readonly key: readonly string[];
  readonly hashVersion: string;
  /** How many keys a join may hold. */
  readonly keysAtOnce: number;
  /** Rows in the files of the reading. */
  readonly rows: number;
  /** `everything`: rows that the reading lacks are deleted. `additions`: the reading did not ask for them. */
  readonly coverage: 'everything' | 'additions';
  /** Rows of the previous snapshot that the reading met again unchanged; its files lack them. */
  readonly unchangedRows: UnchangedRows;
  /** The Parquet files of the previous snapshot, if its rows are read there: for the sign of each zero, or for large texts. */
  readonly previousFiles?: readonly string[] | undefined;
  /** Bytes of a row that was read or stored, on average, where rows are largest; 0 without any. */
  readonly recordBytes: number;
}

/** SQL for the source of the previous snapshot's rows: its table, or its files. */
export function previousRows({ stream, previousFiles }: Pick<DiffTask, 'stream' | 'previousFiles'>): string {
  return previousFiles === undefined ? storeTable(stream) : `read_parquet(${fileTexts(previousFiles)})`;
}

/** Whether the files of the reading are the whole snapshot, so that it needs no row of the previous one. */
export function isComplete({
  previous,
  coverage,
  unchangedRows,
}: Pick<DiffTask, 'previous' | 'coverage' | 'unchangedRows'>): boolean {
  return previous === undefined || (coverage === 'everything' && unchangedRows.known === null);
}

/** Whether the stored hashes equal those of the present columns. */
export function hashesComparable({
  previous,
  columns,
  hashVersion,
}: Pick<DiffTask, 'previous' | 'columns' | 'hashVersion'>): boolean {
  if (previous === undefined || previous.hash_version !== hashVersion) return false;
  const before = new Set(previous.columns.map(({ place, field }) => `${place} ${field}`));
  const common = columns.filter(({ place, field }) => before.has(`${place} ${field}`));
  // An all-null column adds nothing to a hash, so its first real type changes none.
  const filled = (column: StoredColumn) => column.shape.k !== 0 || column.declared !== undefined;
  const kept = previous.columns.filter(filled);
  const names = new Set(kept.map(({ place, field }) => `${place} ${field}`));
  const untracked = new Set(kept.filter((column) => column.untracked === true).map(({ name }) => name));
  if (common.some(({ name, untracked: isUntracked }) => untracked.has(name) !== (isUntracked === true))) return false;
  const currentColumns = common.filter(({ place, field }) => names.has(`${place} ${field}`));
  return (
    sameColumns(hashedColumns(kept), hashedColumns(currentColumns), 'table') &&
    keepEmptyTextsAlike(kept, currentColumns)
  );
}

/**
 * SQL for (key, hash) of the previous snapshot. If a type has widened since, it casts the rows and hashes them again.
 * @param among a table whose column `key` lists the wanted keys; left out, all keys
 */
export function storedKeys(
  task: Pick<DiffTask, 'previous' | 'stream' | 'columns' | 'key' | 'hashVersion' | 'previousFiles'>,
  among?: string,
): string {
  const { previous, stream } = task;
  if (previous === undefined) return 'SELECT NULL::VARCHAR AS key, NULL::UBIGINT AS hash WHERE false';
  const only = (key: string) => (among === undefined ? '' : ` WHERE ${key} IN (SELECT key FROM ${among})`);
  if (hashesComparable(task)) return `SELECT key, hash FROM ${keysTable(stream)}${only('key')}`;
  const stored = `(SELECT * FROM ${previousRows(task)}${only(rowKey(task.key))})`;
  const rows = `(SELECT ${widen(previous.columns, task.columns, 'table')} FROM ${stored})`;
  return `SELECT id AS key, hash FROM (${hashedRows(rows, rowKey(task.key), ColumnSet.restore(task.columns).list)})`;
}

/** Adds the stored keys, with their hashes, that a reading of additions did not return. */
export async function completeKeys(session: Session, task: DiffTask, { keys }: WorkTables): Promise<void> {
  await session.run(
    `INSERT INTO ${keys} SELECT key, hash, NULL, NULL FROM (${storedKeys(task)})
     WHERE key NOT IN (SELECT key FROM ${keys})`,
  );
}

/**
 * SQL for the changes of a reading against stored keys and their hashes.
 * @param bucket which keys to compare
 */
function changesAgainst(stored: string, { coverage }: DiffTask, { keys }: WorkTables, bucket = 'true'): string {
  return `SELECT coalesce(n.key, o.key) AS key,
       CASE WHEN o.key IS NULL THEN 'insert' WHEN n.key IS NULL THEN 'delete' ELSE 'update' END AS op
     FROM (FROM ${keys} WHERE ${bucket}) AS n ${coverage === 'everything' ? 'FULL OUTER' : 'LEFT'} JOIN
       (FROM (${stored}) WHERE ${bucket}) AS o ON n.key = o.key
     WHERE n.hash IS DISTINCT FROM o.hash OR n.key IS NULL OR o.key IS NULL`;
}

/**
 * Compares only rows that may have changed: those whose keys are in parts, and those that are missing.
 * @returns the number of unchanged rows
 * @throws {CdsyncError} `unbalanced` if these rows are not the previous snapshot
 */
async function diffUncached(
  session: Session,
  task: DiffTask & { readonly previous: StreamState },
  cachedRows: CachedRows,
  tables: WorkTables,
): Promise<number> {
  const { keys, changed, candidates, old } = tables;
  const { previous, stream } = task;
  const unknown = `SELECT key FROM ${keysTable(stream)} WHERE key NOT IN (SELECT key FROM (${hitRowsSql({ ...cachedRows, unseenPath: null })}))`;
  const others = cachedRows.rows === previous.rows ? '' : ` UNION ${unknown}`;
  await session.run(
    `CREATE OR REPLACE TEMP TABLE ${candidates} AS SELECT key FROM ${keys} UNION (${missedKeysSql(cachedRows)})${others}`,
  );
  await session.run(`CREATE OR REPLACE TEMP TABLE ${old} AS ${storedKeys(task, candidates)}`);
  await session.run(`CREATE OR REPLACE TEMP TABLE ${changed} AS ${changesAgainst(`FROM ${old}`, task, tables)}`);
  const compared = await session.number(`SELECT count(*) FROM ${old}`);
  const cached = await session.number(
    `SELECT count(*) FROM (${hitRowsSql(cachedRows)}) WHERE key NOT IN (SELECT key FROM ${candidates})`,
  );
  if (cached + compared === previous.rows) return cached;
  throw new CdsyncError(
    `${cached} rows were unchanged by the cache and ${compared} compared, but the last snapshot has ${previous.rows}`,
    {
      code: 'unbalanced',
      stream,
      hint: 'nothing was committed; run again with --full, and report it if it stays',
    },
  );
}

/** Compares all keys. */
async function diffAll(session: Session, task: DiffTask, tables: WorkTables): Promise<void> {
  const { previous, rows } = task;
  const { changed, old } = tables;
  await session.run(`CREATE OR REPLACE TEMP TABLE ${changed} (key VARCHAR, op VARCHAR)`);
  if (previous === undefined) return;
  const divided = hashPartitions(rows + previous.rows, task.keysAtOnce);
  let stored = storedKeys(task);
  // Hash rows again only once.
  if (divided.length > 1 && !hashesComparable(task)) {
    await session.run(`CREATE OR REPLACE TEMP TABLE ${old} AS ${stored}`);
    stored = `FROM ${old}`;
  }
  for (const bucket of divided)
    await session.run(`INSERT INTO ${changed} ${changesAgainst(stored, task, tables, bucket)}`);
}

/** @returns the number of unchanged rows */
async function findChanges(session: Session, task: DiffTask, tables: WorkTables): Promise<number> {
  const { previous, unchangedRows, rows } = task;
  const { known } = unchangedRows;
  if (known === null || previous === undefined) {
    await diffAll(session, task, tables);
    return 0;
  }
  const allUnchanged = rows === 0 && known.unseenPath === null && known.rows === previous.rows;
  if (!allUnchanged) return diffUncached(session, { ...task, previous }, known, tables);
  await session.run(`CREATE OR REPLACE TEMP TABLE ${tables.changed} (key VARCHAR, op VARCHAR)`);
  return known.rows;
}

/**
 * Compares the keys and hashes of a reading with those of the previous snapshot.
 * @throws {CdsyncError} `unbalanced` if a row that should be unchanged is not in the previous snapshot
 */
export async function diff(session: Session, task: DiffTask, tables: WorkTables): Promise<Difference> {
  const cached = await findChanges(session, task, tables);
  // A run has many streams, and each table has separate blocks.
  for (const table of [tables.candidates, tables.old]) await session.run(`DROP TABLE IF EXISTS ${table}`);
  const counts = new Map(
    (await session.rows(`SELECT op, count(*) AS rows FROM ${tables.changed} GROUP BY op`)).map(({ op, rows }) => [
      op,
      Number(rows),
    ]),
  );
  const inserted = task.previous === undefined ? task.rows : (counts.get('insert') ?? 0);
  const updated = counts.get('update') ?? 0;
  const rows = task.coverage === 'everything' ? task.rows + cached : (task.previous?.rows ?? 0) + inserted;
  const deleted = counts.get('delete') ?? 0;
  return { inserted, updated, deleted, unchanged: rows - inserted - updated, refreshed: 0, cached, rows };
}

/** How many of the unchanged rows have other values in untracked columns. */
export async function countRefreshed(
  session: Session,
  { previous, stream, columns, key }: DiffTask,
  files: readonly { path: string }[],
): Promise<number> {
  const untracked = columns.filter((column) => column.untracked === true).map(({ name }) => quoteIdentifier(name));
  if (previous === undefined || untracked.length === 0 || files.length === 0) return 0;
  const chosen = `${rowKey(key)} AS ${keyColumn}, ${untracked.join(', ')}`;
  const current = `SELECT ${chosen} FROM (SELECT ${widen(columns, columns, 'table')} FROM read_parquet(${fileTexts(files.map(({ path }) => path))}))`;
  const before = `SELECT ${chosen} FROM (SELECT ${widen(previous.columns, columns, 'table')} FROM ${storeTable(stream)})`;
  const differs = untracked.map((name) => `_cdsync_n.${name} IS DISTINCT FROM _cdsync_o.${name}`).join(' OR ');
  const { changed } = workTables(stream);
  return session.number(
    `SELECT count(*) FROM (${current}) AS _cdsync_n JOIN (${before}) AS _cdsync_o USING (${keyColumn})
     WHERE (${differs}) AND ${keyColumn} NOT IN (SELECT key FROM ${changed})`,
  );
}

function pathOf({ place, field }: Pick<StoredColumn, 'place' | 'field'>): string {
  return `${place} ${field}`;
}

/** Whether columns of the previous snapshot are now left out, or named, masked, tracked or written in another way. */
export function changesDefinition({ previous, columns }: Pick<DiffTask, 'previous' | 'columns'>): boolean {
  const currentColumns = new Map(columns.map((column) => [pathOf(column), column]));
  return (previous?.columns ?? []).some((column) => {
    const described = ({ name, rule, untracked, text }: StoredColumn) => JSON.stringify([name, rule, untracked, text]);
    const current = currentColumns.get(pathOf(column));
    return current === undefined || described(current) !== described(column);
  });
}

/** Whether the previous snapshot has values that must go: their columns are now left out, hashed or masked. */
export function removesValues({ previous, columns }: Pick<DiffTask, 'previous' | 'columns'>): boolean {
  const currentColumns = new Map(ColumnSet.restore(columns).list.map((column) => [pathOf(column), column]));
  return ColumnSet.restore(previous?.columns ?? []).list.some((column) => {
    const current = currentColumns.get(pathOf(column));
    return current === undefined || isNewlyMasked(column, current);
  });
}

/** Keys of the previous snapshot that the reading lacks, at most `limit` of them. */
export async function absentKeys(session: Session, { changed }: WorkTables, limit: number): Promise<string[]> {
  const rows = await session.rows(`SELECT key FROM ${changed} WHERE op = 'delete' ORDER BY key LIMIT ${limit}`);
  return rows.map(({ key }) => String(key));
}

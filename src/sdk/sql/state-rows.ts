import { CdsyncError, fenced } from '../errors.js';
import type { LoadLine, StateKey, StateRow, TableState } from '../load.js';
import type { SqlDialect, SqlRow, SqlSession } from './dialect.js';
import { nameList, sameNames } from './statements.js';

/** The table of records: one row for each table that cdsync keeps at a destination, beside these tables. */
export const stateTable = '_cdsync_state';

/** Columns of {@link stateTable} in order. `version` is an integer of 64 bits, the others are text. */
export const stateColumns = ['destination', 'stream', 'table_name', 'version', 'record'] as const;

/** The table in which users find every load. */
export const loadsTable = '_cdsync_loads';

/** Columns of {@link loadsTable} in order, and whether they are integers of 64 bits; the others are text, times in ISO 8601. */
export const loadsColumns = {
  load: false,
  destination: false,
  stream: false,
  table_name: false,
  action: false,
  why: false,
  generation: true,
  sequence: true,
  run_id: false,
  rows_sent: true,
  rows_after: true,
  values_refused: true,
  columns_added: false,
  columns_cleared: false,
  began_at: false,
  committed_at: false,
  cdsync_version: false,
} as const;

/** Lines of {@link loadsTable} older than this are removed: days. */
export const loadsKeptDays = 400;

/** A place whose tables of cdsync's own are read and written. */
export interface SqlStore {
  readonly dialect: SqlDialect;
  readonly session: SqlSession;
}

/** SQL that makes cdsync's own tables. */
export function stateTableSql({ identifier, own, table }: SqlDialect) {
  const { text, integer, stateTail = '', tail = '' } = own;
  const state = stateColumns.map((name) => `${identifier(name)} ${name === 'version' ? integer : text}`);
  const loads = Object.entries(loadsColumns).map(
    ([name, isNumber]) => `${identifier(name)} ${isNumber ? integer : text}`,
  );
  return {
    state: `CREATE TABLE IF NOT EXISTS ${table(stateTable)} (${state.join(', ')}${stateTail})${tail}`,
    loads: `CREATE TABLE IF NOT EXISTS ${table(loadsTable)} (${loads.join(', ')})${tail}`,
  };
}

function stateKeyOf(row: SqlRow): StateKey {
  return { destination: String(row.destination), stream: String(row.stream), table: String(row.table_name) };
}

/** The newest record of each stream and table. */
export async function stateRows({ dialect, session }: SqlStore): Promise<StateRow[]> {
  const rows = await session.rows(`SELECT ${nameList(dialect, stateColumns)} FROM ${dialect.table(stateTable)}`);
  const all = rows.map((row) => ({ ...stateKeyOf(row), version: Number(row.version), record: String(row.record) }));
  if (dialect.addsState !== true) return all;
  const newest = new Map<string, StateRow>();
  for (const row of all) {
    const key = JSON.stringify([row.destination, row.stream, row.table]);
    if ((newest.get(key)?.version ?? -1) < row.version) newest.set(key, row);
  }
  return [...newest.values()];
}

/** Whether a row is of the stream of a key, at the same destination. */
export function isSameStream(row: StateKey, { destination, stream }: StateKey): boolean {
  return row.destination === destination && row.stream === stream;
}

/** The rows that concern a stream and its table. @param folded the form in which the destination compares names of tables */
export function tableState(key: StateKey, rows: readonly StateRow[], folded: (name: string) => string): TableState {
  const isOwn = (row: StateKey) => isSameStream(row, key);
  const isHere = (row: StateKey) => folded(row.table) === folded(key.table);
  return {
    own: rows.find((row) => isOwn(row) && isHere(row)),
    others: rows.filter((row) => !isOwn(row) && isHere(row)),
    former: rows.filter((row) => isOwn(row) && !isHere(row)),
  };
}

/** Deletes rows of cdsync's own that no longer count. Where loads are steps they may stay, because not every store deletes rows. */
async function cleanUp({ dialect, session }: SqlStore, table: string, where: string): Promise<void> {
  try {
    await session.run(`DELETE FROM ${dialect.table(table)} WHERE ${where}`);
  } catch (error) {
    if (dialect.commit !== 'steps' || !(error instanceof CdsyncError) || error.kind !== 'fatal') throw error;
  }
}

function equal({ identifier, literal }: SqlDialect, values: Readonly<Record<string, string>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${identifier(name)} = ${literal(value)}`)
    .join(' AND ');
}

function isKey(dialect: SqlDialect, { destination, stream, table }: StateKey): string {
  return equal(dialect, { destination, stream, table_name: table });
}

export async function removeRecords({ dialect, session }: SqlStore, key: StateKey): Promise<void> {
  await session.run(`DELETE FROM ${dialect.table(stateTable)} WHERE ${isKey(dialect, key)}`);
}

/** Removes records of earlier versions. */
export async function removeOlder(store: SqlStore, key: StateKey, version: number): Promise<void> {
  const { dialect } = store;
  await cleanUp(store, stateTable, `${isKey(dialect, key)} AND ${dialect.identifier('version')} < ${version}`);
}

async function stateNumber({ dialect, session }: SqlStore, selected: string, where: string): Promise<number> {
  const [row] = await session.rows(`SELECT ${selected} AS n FROM ${dialect.table(stateTable)} WHERE ${where}`);
  return Number(Object.values(row ?? {})[0] ?? 0);
}

/** @throws {CdsyncError} `fenced` if a record of another version than that is the newest */
export async function assertVersion(store: SqlStore, key: StateKey, version: number): Promise<void> {
  const { dialect } = store;
  const newest = await stateNumber(store, `coalesce(max(${dialect.identifier('version')}), 0)`, isKey(dialect, key));
  if (newest !== version) throw fenced(key);
}

/**
 * Replaces a record if its row has the version that was read. A store without transactions has no such condition for a row that is
 * added: of two deliveries that add the same version at once, at most one continues.
 * @throws {CdsyncError} `fenced`
 */
export async function writeRecord(
  store: SqlStore,
  key: StateKey,
  before: StateRow | undefined,
  record: string,
): Promise<StateRow> {
  const { dialect, session } = store;
  const state = dialect.table(stateTable);
  const text = dialect.literal(record);
  const version = (before?.version ?? 0) + 1;
  const [number, content] = [dialect.identifier('version'), dialect.identifier('record')];
  if (dialect.addsState === true) await assertVersion(store, key, version - 1);
  else if (before !== undefined) {
    const isUnchanged = `${isKey(dialect, before)} AND ${number} = ${before.version}`;
    const changed = await session.run(
      `UPDATE ${state} SET ${number} = ${version}, ${content} = ${text} WHERE ${isUnchanged}`,
    );
    if (changed !== 1) throw fenced(key);
    return { ...before, version, record };
  }
  const values = [key.destination, key.stream, key.table].map((value) => dialect.literal(value));
  values.push(String(version), text);
  if (dialect.mergesState === true) {
    if ((await session.run(mergedRecord(dialect, values))) !== 1) throw fenced(key);
    return { ...key, version, record };
  }
  try {
    await session.run(`INSERT INTO ${state} (${nameList(dialect, stateColumns)}) VALUES (${values.join(', ')})`);
  } catch (error) {
    const isTaken = error instanceof CdsyncError && error.kind === 'fatal' && dialect.commit !== 'steps';
    throw isTaken ? fenced(key) : error;
  }
  if (dialect.commit === 'steps') {
    const isUnchanged = `${isKey(dialect, key)} AND ${number} = ${version} AND ${content} = ${text}`;
    const others = `${isKey(dialect, key)} AND ${number} >= ${version} AND ${content} <> ${text}`;
    if ((await stateNumber(store, 'count(*)', others)) > 0) {
      await cleanUp(store, stateTable, isUnchanged);
      throw fenced(key);
    }
  }
  return { ...key, version, record };
}

/** SQL that adds a record, unless there is one. @param values of the columns, in order */
function mergedRecord(dialect: SqlDialect, values: readonly string[]): string {
  const named = stateColumns.map((name, index) => `${values[index]} AS ${dialect.identifier(name)}`);
  const isSame = sameNames(dialect, ['destination', 'stream', 'table_name'], 't', 's');
  const columns = nameList(dialect, stateColumns);
  return `MERGE INTO ${dialect.table(stateTable)} AS t USING (SELECT ${named.join(', ')}) AS s ON ${isSame}
    WHEN NOT MATCHED THEN INSERT (${columns}) VALUES (${nameList(dialect, stateColumns, 's.')})`;
}

/** Adds the line about a load, and removes old ones. */
export async function recordLoad(store: SqlStore, line: LoadLine, moment: string): Promise<void> {
  const { dialect, session } = store;
  const table = dialect.table(loadsTable);
  const values = Object.entries(loadsColumns).map(([name, isNumber]) => {
    const value = line[name];
    if (value === undefined) return 'NULL';
    return isNumber ? String(value) : dialect.literal(String(value));
  });
  await session.run(
    `INSERT INTO ${table} (${nameList(dialect, Object.keys(loadsColumns))}) VALUES (${values.join(', ')})`,
  );
  const oldest = new Date(Date.parse(moment) - loadsKeptDays * 86_400_000).toISOString();
  await cleanUp(store, loadsTable, `${dialect.identifier('committed_at')} < ${dialect.literal(oldest)}`);
}

/** The columns that each load has added to a table, one list a load. */
export async function addedColumnLists({ dialect, session }: SqlStore, key: StateKey): Promise<string[]> {
  const column = dialect.identifier('columns_added');
  const rows = await session.rows(
    `SELECT DISTINCT ${column} AS added FROM ${dialect.table(loadsTable)} WHERE ${isKey(dialect, key)} AND ${column} IS NOT NULL`,
  );
  return rows.map((row) => String(row.added ?? row.ADDED));
}

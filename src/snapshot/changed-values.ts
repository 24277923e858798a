import { ColumnSet, type StoredColumn } from '../columns/columns.js';
import { rowKey, wideColumns } from '../columns/row-hash.js';
import { widen } from '../columns/widen.js';
import { fileTexts, keyColumn, quoteIdentifier } from '../core/sql.js';
import { areLarge, rangeRows, vectorRows } from '../storage/large-rows.js';
import type { ParquetFile } from '../storage/parquet.js';
import { type ApplyTask, tableBefore } from './apply.js';
import { comparable, rowBytesOf } from './large-rows.js';
import type { SnapshotStore } from './snapshot-store.js';
import type { WorkTables } from './unify-parts.js';

/** The most blocks of rows that DuckDB scans together to read: fewer updated rows are all compared, and of more a sample. */
const maxBlocks = 12;
/** The least columns of a wide table, and the share of them, that one statement compares: a count for each of 5,000 took 10 GB. */
const minColumnsTogether = 200;
const shareTogether = 1 / 40;

/** In how many of the updated rows each column has another value than before. */
export interface ChangedValues {
  /** Updated rows. */
  readonly updated: number;
  /** Those of them that were compared: all, or a sample. */
  readonly compared: number;
  /** Of each column, the compared rows that have another value. */
  readonly columns: ReadonlyMap<string, number>;
}

/** The places of the updated rows in a table: all blocks with such rows, or some at even distances. */
async function chosenBlocks(
  { session }: SnapshotStore,
  { table, blockRows }: { table: string; blockRows: number },
  { key }: ApplyTask,
  { changed }: WorkTables,
) {
  const updated = `SELECT key FROM ${changed} WHERE op = 'update'`;
  const rows = await session.rows(
    `SELECT rowid // ${blockRows} AS _cdsync_block FROM ${table} WHERE ${rowKey(key)} IN (${updated}) GROUP BY ALL ORDER BY ALL`,
  );
  const blocks = rows.map(({ _cdsync_block: block }) => Number(block));
  const step = Math.max(1, blocks.length / maxBlocks);
  return Array.from(
    { length: Math.min(blocks.length, maxBlocks) },
    (_, index) => blocks[Math.floor(index * step)] as number,
  );
}

/**
 * Compares the updated rows with their rows in the store, once the changes are written. If they are many it compares a
 * sample: to read every updated row again would cost as much as reading the whole table, for updated rows are everywhere.
 */
export async function changedValues(
  store: SnapshotStore,
  task: ApplyTask,
  changes: readonly ParquetFile[],
  tables: WorkTables,
): Promise<ChangedValues | undefined> {
  const { previous, columns, difference } = task;
  const { updated } = difference;
  if (previous === undefined || updated === 0 || changes.length === 0) return undefined;
  const table = tableBefore(task, tables);
  const isLarge = previous.large_texts === true || areLarge(task.recordBytes);
  // To read one row of a vector costs as much as to read all, unless each is large.
  const blockRows = isLarge ? rangeRows(await rowBytesOf(store.session, task.previousFiles ?? [])) : vectorRows;
  const blocks = await chosenBlocks(store, { table, blockRows }, task, tables);
  if (blocks.length === 0) return undefined;
  const key = rowKey(task.key);
  const files = fileTexts(changes.map(({ path }) => path));
  // One condition for all blocks: to plan a query of many parts costs more than to run it.
  const places = blocks.map((block) => `rowid BETWEEN ${block * blockRows} AND ${(block + 1) * blockRows - 1}`);
  const old = `FROM ${table}
     WHERE (${places.join(' OR ')}) AND ${key} IN (SELECT key FROM ${tables.changed} WHERE op = 'update')`;
  const shown = (list: readonly StoredColumn[], widened: string, from: string) =>
    isLarge ? `SELECT ${comparables(list, task.key)} FROM (SELECT ${widened} ${from})` : `SELECT ${widened} ${from}`;
  const found = new Map<string, number>();
  let compared = 0;
  for (const some of columnGroups(columns, task.key)) {
    const current = shown(some, widen(some, some, 'table'), `FROM read_parquet(${files}) WHERE _op = 'update'`);
    const before = shown(some, widen(previous.columns, some, 'table'), old);
    const counts = some.map(({ name }, index) => {
      const column = quoteIdentifier(name);
      return `count(*) FILTER (_cdsync_n.${column} IS DISTINCT FROM _cdsync_o.${column}) AS c${index}`;
    });
    const [row] = await store.session.rows(
      `SELECT count(*) AS compared, ${counts.join(', ')}
       FROM (SELECT *, ${key} AS ${keyColumn} FROM (${current})) AS _cdsync_n
       JOIN (SELECT *, ${key} AS ${keyColumn} FROM (${before})) AS _cdsync_o USING (${keyColumn})`,
    );
    compared = Number(row?.compared ?? 0);
    for (const [index, { name }] of some.entries()) found.set(name, Number(row?.[`c${index}`] ?? 0));
  }
  return { updated, compared, columns: found };
}

/** SQL for the columns of the key as they are, and for values that replace those of the others in a comparison. */
function comparables(columns: readonly StoredColumn[], key: readonly string[]): string {
  const shown = ColumnSet.restore(columns).list.map(({ name, type }) => {
    const value = quoteIdentifier(name);
    return `${key.includes(name) ? value : comparable(type, value)} AS ${value}`;
  });
  return shown.join(', ');
}

/** The columns of a wide table some at a time, each time with those of the key. */
function columnGroups(columns: readonly StoredColumn[], key: readonly string[]): readonly (readonly StoredColumn[])[] {
  if (columns.length <= wideColumns) return [columns];
  const ofKey = columns.filter(({ name }) => key.includes(name));
  const others = columns.filter((column) => !ofKey.includes(column));
  const together = Math.max(minColumnsTogether, Math.ceil(others.length * shareTogether));
  return Array.from({ length: Math.ceil(others.length / together) }, (_, index) => [
    ...ofKey,
    ...others.slice(index * together, (index + 1) * together),
  ]);
}

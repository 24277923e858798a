import { rm } from 'node:fs/promises';
import { ColumnSet, holdNegativeZero, type StoredColumn } from '../columns/columns.js';
import { rowKey } from '../columns/row-hash.js';
import { sameColumns, widen } from '../columns/widen.js';
import { fileText, keyColumn, quoteIdentifier } from '../core/sql.js';
import type { Session } from '../storage/duckdb.js';
import { type ParquetCompression, type ParquetFile, writeParquet } from '../storage/parquet.js';
import { allKeys, keysOf, type Part } from '../storage/part.js';
import { keysTable, storeTable } from './store-tables.js';

/**
 * SQL conditions that divide rows by the hash of their column `key`: rows with equal keys meet the same condition, each row meets one.
 * So a join may be made piece by piece.
 * @param keys how many there are on both sides
 */
export function hashPartitions(keys: number, atOnce: number): readonly string[] {
  const count = Math.ceil(keys / atOnce);
  if (count <= 1) return ['true'];
  return Array.from({ length: count }, (_, bucket) => `hash(key) % ${count} = ${bucket}`);
}

interface UnifyTask {
  readonly parts: readonly Part[];
  readonly columns: readonly StoredColumn[];
  readonly key: readonly string[];
  /** Ranges of rows to drop from a part: `from` is included, `to` is not. */
  readonly dropped: readonly { part: number; from: number; to: number }[];
  readonly compression: ParquetCompression;
  /** Bytes of a record, on average. */
  readonly recordBytes: number;
  /** How many keys a join may hold. */
  readonly keysAtOnce: number;
  /** SQL for the keys in a table of forgotten people, whose rows are left out; undefined if there are none. */
  readonly forgotten?: ((rows: string) => string) | undefined;
  /** Set if a field that a record lacks keeps the value of the last snapshot. */
  readonly known?: { readonly stream: string; readonly columns: readonly StoredColumn[] } | undefined;
}

export interface Unified {
  /** Files that have the same columns and each key once. */
  readonly files: readonly ParquetFile[];
  readonly rows: number;
  /** Copies of keys that were left out. The copy that was read last stays. */
  readonly duplicates: number;
  /** Rows of people who were forgotten, which were left out. */
  readonly forgotten: number;
}

/** Names of the session's temporary tables for one stream, quoted. */
export interface WorkTables {
  /** (key, hash, part, row) of the reading, each key once. */
  readonly keys: string;
  /** (key, op) of each row that differs from the previous snapshot; empty if there is none. */
  readonly changed: string;
  readonly surplus: string;
  /** (key) of each row that must be compared, if others are unchanged. */
  readonly candidates: string;
  /** (key, hash) of these rows in the previous snapshot. */
  readonly old: string;
  /** The rows of the previous snapshot that change or go, as its table has them, if they are few. */
  readonly before: string;
}

export function workTables(stream: string): WorkTables {
  const table = (name: string) => `"work_${name}_${stream}"`;
  return {
    keys: table('keys'),
    changed: table('changed'),
    surplus: table('surplus'),
    candidates: table('candidates'),
    old: table('old'),
    before: table('before'),
  };
}

/** Finds dropped rows, those of forgotten people and older copies, and removes their keys. */
async function findSurplus(
  session: Session,
  task: UnifyTask,
  { keys, surplus }: WorkTables,
): Promise<Pick<Unified, 'duplicates' | 'forgotten'>> {
  const ranges = task.dropped.map(({ part, from, to }) => `(part = ${part} AND row >= ${from} AND row < ${to})`);
  const dropped = ranges.length === 0 ? 'false' : ranges.join(' OR ');
  await session.run(`CREATE OR REPLACE TEMP TABLE ${surplus} AS SELECT part, row FROM ${keys} WHERE ${dropped}`);
  if (ranges.length > 0) await session.run(`DELETE FROM ${keys} WHERE ${dropped}`);
  const leave = `DELETE FROM ${keys} AS k USING ${surplus} AS s WHERE k.part = s.part AND k.row = s.row`;
  let forgotten = 0;
  if (task.forgotten !== undefined) {
    const count = () => session.number(`SELECT count(*) FROM ${surplus}`);
    const before = await count();
    await session.run(`INSERT INTO ${surplus} SELECT part, row FROM ${keys} WHERE key IN (${task.forgotten(keys)})`);
    forgotten = (await count()) - before;
    if (forgotten > 0) await session.run(leave);
  }
  let duplicates = 0;
  for (const bucket of hashPartitions(await session.number(`SELECT count(*) FROM ${keys}`), task.keysAtOnce)) {
    const bucketKeys = `(FROM ${keys} WHERE ${bucket})`;
    const copies = await session.number(`SELECT count(*) - count(DISTINCT key) FROM ${bucketKeys}`);
    duplicates += copies;
    if (copies === 0) continue;
    await session.run(
      `INSERT INTO ${surplus} SELECT part, row FROM ${bucketKeys}
       WHERE key IN (SELECT key FROM ${bucketKeys} GROUP BY key HAVING count(*) > 1)
       QUALIFY row_number() OVER (PARTITION BY key ORDER BY part DESC, row DESC) > 1`,
    );
  }
  if (duplicates > 0) await session.run(leave);
  return { duplicates, forgotten };
}

async function rewrite(
  session: Session,
  part: Part,
  task: UnifyTask,
  tables: WorkTables,
): Promise<ParquetFile | undefined> {
  const rows = `(SELECT * FROM read_parquet(${fileText(part.path)}, file_row_number = true)
     WHERE file_row_number NOT IN (SELECT row FROM ${tables.surplus} WHERE part = ${part.number}))`;
  const values = widen(part.columns, task.columns, 'file');
  const query =
    task.known === undefined
      ? `SELECT ${values} FROM ${rows} ORDER BY file_row_number`
      : completed(`SELECT ${values}, file_row_number FROM ${rows}`, { ...task, known: task.known });
  const file = await writeParquet(session, query, part.path.replace(/\.parquet$/, '.unified.parquet'), {
    compression: task.compression,
    keepsZeroSigns: holdNegativeZero(task.columns),
    rowBytes: task.recordBytes,
  });
  const partKeys = `FROM ${tables.keys} WHERE part = ${part.number}`;
  if (file.rows === 0) {
    await session.run(`DELETE ${partKeys}`);
    await rm(file.path);
    return undefined;
  }
  const { list } = ColumnSet.restore(task.columns);
  const rewritten = { number: part.number, path: file.path, columns: list, key: task.key };
  // The row stays that of the part as it was read: the part's keys file knows the hash of the record's bytes by it.
  await session.run(`CREATE OR REPLACE TEMP TABLE work_rewritten AS SELECT n.key, n.hash, n.part, o.row
     FROM (${keysOf(rewritten)}) AS n JOIN (SELECT key, row ${partKeys}) AS o ON n.key = o.key`);
  await session.run(`DELETE ${partKeys}`);
  await session.run(`INSERT INTO ${tables.keys} FROM work_rewritten`);
  return file;
}

/** SQL for rows of a reading, with the stored values of the fields that they lack. */
function completed(
  read: string,
  { known, columns, key }: UnifyTask & { readonly known: NonNullable<UnifyTask['known']> },
): string {
  const names = ColumnSet.restore(columns).list.map(({ name }) => quoteIdentifier(name));
  const values = names.map((name) => `coalesce(_cdsync_r.${name}, _cdsync_k.${name}) AS ${name}`).join(', ');
  const keyed = (rows: string) => `(SELECT *, ${rowKey(key)} AS ${keyColumn} FROM (${rows}))`;
  const stored = `SELECT ${widen(known.columns, columns, 'file')} FROM ${storeTable(known.stream)}`;
  return `SELECT ${values} FROM ${keyed(read)} AS _cdsync_r LEFT JOIN ${keyed(stored)} AS _cdsync_k
    ON _cdsync_r.${keyColumn} = _cdsync_k.${keyColumn} ORDER BY _cdsync_r.file_row_number`;
}

/** The parts with rows for which the last snapshot may have more fields. */
async function knownParts(session: Session, { known }: UnifyTask, { keys }: WorkTables): Promise<readonly number[]> {
  if (known === undefined) return [];
  const rows = await session.rows(
    `SELECT DISTINCT part FROM ${keys} WHERE key IN (SELECT key FROM ${keysTable(known.stream)})`,
  );
  return rows.map(({ part }) => Number(part));
}

/**
 * Makes one set of files from the parts of a reading. All have the same columns and types in the same order, so that a plain
 * glob reads them correctly, and each key occurs once. A part that already fits is used as it is.
 */
export async function unifyParts(session: Session, task: UnifyTask, tables: WorkTables): Promise<Unified> {
  const read = allKeys(task.parts.map(({ keysPath }) => keysPath));
  await session.run(`CREATE OR REPLACE TEMP TABLE ${tables.keys} AS ${read}`);
  const { duplicates, forgotten } = await findSurplus(session, task, tables);
  const touched = await session.rows(`SELECT DISTINCT part FROM ${tables.surplus}`);
  const surplus = new Set([...touched.map(({ part }) => Number(part)), ...(await knownParts(session, task, tables))]);
  const files: ParquetFile[] = [];
  for (const part of task.parts) {
    if (!surplus.has(part.number) && sameColumns(part.columns, task.columns, 'file')) {
      files.push(part);
      continue;
    }
    const file = await rewrite(session, part, task, tables);
    if (file !== undefined) files.push(file);
  }
  await session.run(`DROP TABLE ${tables.surplus}`);
  return { files, duplicates, forgotten, rows: files.reduce((sum, { rows }) => sum + rows, 0) };
}

import { mkdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { countDiffers, filePattern, type Load, loadRefused, type TableColumn } from '../../src/sdk/index.js';
import { unfoldableSql, withoutUnfoldable } from './folder-names.js';
import { literal, nothingSql } from './formats.js';
import type { Layout, Manifest } from './manifest.js';
import { orderSql, type SetWriter } from './set-writer.js';
import type { TableReader } from './table-reader.js';
import { identifier } from './types.js';
import type { Workbench } from './workbench.js';

/** The column that marks a row as deleted, if deleted rows stay. */
const deletedAt = '_deleted_at';
const isLive = `${identifier(deletedAt)} IS NULL`;

export interface NewSetTask {
  readonly load: Load;
  /** The set before. */
  readonly found: Manifest;
  readonly bench: Workbench;
  readonly reader: TableReader;
  readonly writer: SetWriter;
  readonly layout: Layout;
  /** A local folder for rows until all have arrived. */
  readonly folder: string;
}

/** The parts of the new manifest that a load determines. */
export type NewSet = Layout & Pick<Manifest, 'schema' | 'files' | 'rows' | 'live_rows'>;

interface Written {
  readonly schema: Manifest['schema'];
  readonly rows: number;
  readonly live: number;
}

/** Whether the load adds files to the existing ones. */
function adds({ load, found }: NewSetTask): boolean {
  return load.action.type === 'append' && found.rows > 0;
}

/** Refuses to mix formats or partitions: one pattern must read all files of a table. */
function checkLayout({ found, layout }: NewSetTask): void {
  const same = ({ format, partition_by, csv_formulas = 'keep' }: Layout) =>
    JSON.stringify([format, partition_by, format === 'csv' ? csv_formulas : '']);
  if (same(found) === same(layout)) return;
  const by = found.partition_by.length === 0 ? '' : ` by ${found.partition_by.join(', ')}`;
  throw loadRefused(`table "${found.table}" has ${found.format} files${by}, and others would be added`, {
    hint: 'set `format`, `partition_by` and `csv_formulas` back, or give the stream another table with `table:`',
  });
}

/** The columns of the new set: those of the load if it replaces the table, otherwise all that the table has had. */
function schemaOf({ load, found }: NewSetTask): Manifest['schema'] {
  if (load.action.type !== 'replace') return found.schema;
  return load.table.columns.map(({ name, type }) => ({ name, type }));
}

function handedColumns({ data }: Load): TableColumn[] {
  return data.columns.map(({ name, targetType }) => ({ name, type: targetType }));
}

/** Turns each file that is handed over into a file of the set. */
async function streamed(task: NewSetTask): Promise<Written> {
  const { load, bench, writer, layout } = task;
  const schema = schemaOf(task);
  const columns = handedColumns(load);
  const hasMark = columns.some(({ name }) => name === deletedAt);
  let [rows, live] = [0, 0];
  for await (const file of load.data.files()) {
    load.signal.throwIfAborted();
    const source = `read_parquet(${literal(filePattern(file.path))})`;
    if (layout.format === 'parquet')
      await writer.take(
        file.path,
        await bench.number(`SELECT num_rows FROM parquet_file_metadata(${literal(filePattern(file.path))})`),
      );
    else await writer.write(source, columns);
    rows += writer.files.at(-1)?.rows ?? 0;
    live += hasMark ? await bench.number(`SELECT count(*) FROM ${source} WHERE ${isLive}`) : file.rows;
  }
  if (rows !== load.data.handedOver) throw countDiffers('the set of files', load.data.handedOver, rows);
  // A table without rows gets a file too, so that readers find its columns.
  if (writer.files.length === 0 && !adds(task)) await writer.write(`(${nothingSql(schema)})`, schema);
  return { schema, rows, live };
}

/** Keeps all files that are handed over. @returns SQL for their rows */
async function staged({ load, bench, folder, layout }: NewSetTask): Promise<string> {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const paths: string[] = [];
  // Of a deleted row only the key counts.
  const where = load.action.type === 'merge' ? `"_op" = 'upsert'` : 'true';
  for await (const handed of load.data.files()) {
    load.signal.throwIfAborted();
    const file = await withoutUnfoldable(handed, { bench, columns: layout.partition_by, where });
    const path = join(folder, `${paths.length}.parquet`);
    // Move it away: it would be removed once the next is asked for.
    await rename(file.path, path);
    paths.push(path);
  }
  const files = paths.map((path) => literal(filePattern(path))).join(', ');
  const rows = paths.length === 0 ? `(${nothingSql(handedColumns(load))})` : `read_parquet([${files}])`;
  const arrived = await bench.number(`SELECT count(*) FROM ${rows}`);
  if (arrived !== load.data.handedOver) throw countDiffers('the staging folder', load.data.handedOver, arrived);
  return rows;
}

/** A query of the rows of the new set: the arrived rows, and those that stay of the set before. */
async function mergedSql(task: NewSetTask, arrived: string, stage: string): Promise<string> {
  const { load, found, reader } = task;
  if (load.action.type !== 'merge') return arrived;
  const { absent } = load.action;
  const upserts = `${arrived} WHERE "_op" = 'upsert'`;
  if (absent === 'delete') return upserts;
  const same = load.table.key.map((name) => `o.${identifier(name)} = s.${identifier(name)}`).join(' AND ');
  const kept = found.schema.map(({ name }) => {
    const column = identifier(name);
    if (name !== deletedAt || absent === 'keep') return `o.${column}`;
    return `coalesce(o.${column}, ${literal(load.deliveredAt)}::TIMESTAMPTZ) AS ${column}`;
  });
  const old = await reader.query(found, found.schema);
  return `${upserts} UNION ALL
    SELECT ${kept.join(', ')} FROM (${old}) AS o WHERE NOT EXISTS (SELECT 1 FROM ${stage} AS s WHERE ${same})`;
}

/** Rows of the set before have other folders if `partition_by` is new; a full load can set such a row aside. */
async function checkFolders({ found, bench, layout }: NewSetTask): Promise<void> {
  const unfoldable = unfoldableSql(layout.partition_by);
  if (unfoldable === undefined || (await bench.number(`SELECT count(*) FROM result WHERE ${unfoldable}`)) === 0) return;
  throw loadRefused(`table "${found.table}" has rows whose values cannot be names of folders`, {
    hint: 'send everything again, which sets them aside: cdsync push --full',
  });
}

/** Collects all rows in one table first, and then writes the whole set from it. */
async function joined(task: NewSetTask): Promise<Written> {
  const { load, bench, writer, layout, folder } = task;
  const schema = schemaOf(task);
  const stage = await staged(task);
  const handed = new Set(load.data.columns.map(({ name }) => name));
  const values = schema.map(({ name, type }) => {
    const column = identifier(name);
    return `${handed.has(name) ? column : 'NULL'}::${type} AS ${column}`;
  });
  const rows = await mergedSql(task, `SELECT ${values.join(', ')} FROM ${stage}`, stage);
  await bench.run(`CREATE OR REPLACE TABLE result AS SELECT * FROM (${rows}) ${orderSql(layout.partition_by)}`);
  await checkFolders(task);
  await writer.writeTable('result', schema);
  const count = await bench.number('SELECT count(*) FROM result');
  if (writer.rows !== count) throw countDiffers('the set of files', count, writer.rows);
  const hasMark = schema.some(({ name }) => name === deletedAt);
  const live = hasMark ? await bench.number(`SELECT count(*) FROM result WHERE ${isLive}`) : count;
  await bench.run('DROP TABLE result');
  await rm(folder, { recursive: true, force: true });
  return { schema, rows: count, live };
}

/** Writes the files of a load's new set. Nothing refers to them yet. */
export async function makeSet(task: NewSetTask): Promise<NewSet> {
  const { load, found, writer, layout } = task;
  if (adds(task)) checkLayout(task);
  const isWhole = load.action.type !== 'merge' && layout.partition_by.length === 0;
  const { schema, rows, live } = await (isWhole ? streamed(task) : joined(task));
  if (!adds(task)) return { ...layout, schema, files: writer.files, rows, live_rows: live };
  return {
    ...layout,
    schema,
    files: [...found.files, ...writer.files],
    rows: found.rows + rows,
    live_rows: found.live_rows + live,
  };
}

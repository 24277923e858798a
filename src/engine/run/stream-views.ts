import { quoteIdentifier, sqlTexts } from '../../core/sql.js';
import { rowKey } from '../../rows/row-hash.js';
import { widen } from '../../rows/widen.js';
import type { StreamCommit } from '../../snapshot/commit.js';
import { replacedKeys } from '../../snapshot/snapshot-files.js';
import { type SnapshotStore, type StreamState, storeTable } from '../../snapshot/snapshot-store.js';

async function define({ session }: SnapshotStore, stream: string, query: string): Promise<void> {
  await session.run(`CREATE OR REPLACE TEMP VIEW ${quoteIdentifier(stream)} AS ${query}`);
}

/** Makes the rows that this run is about to commit visible to queries, under the stream's name. */
export async function showStream(store: SnapshotStore, { task, tables }: StreamCommit): Promise<void> {
  const { stream, columns, files, previous, addition } = task;
  const read = `SELECT ${widen(columns, columns, 'table')} FROM read_parquet(${sqlTexts(files.map(({ path }) => path))})`;
  if (addition === undefined || previous === undefined) return define(store, stream, read);
  const stored = `SELECT * FROM (SELECT ${widen(previous.columns, columns, 'table')} FROM ${storeTable(stream)})
     WHERE ${rowKey(task.key)} NOT IN (${replacedKeys(tables)})`;
  return define(store, stream, files.length === 0 ? stored : `${read} UNION ALL ${stored}`);
}

/** Makes the last snapshot of a stream visible to queries, under the stream's name. */
export async function showStored(store: SnapshotStore, { stream, columns }: StreamState): Promise<void> {
  await define(store, stream, `SELECT ${widen(columns, columns, 'table')} FROM ${storeTable(stream)}`);
}

/** Removes the views again: in the store, these names mean the store's own tables. */
export async function hideStreams({ session }: SnapshotStore): Promise<void> {
  const views = await session.rows('SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal');
  for (const { view_name } of views) await session.run(`DROP VIEW temp.${quoteIdentifier(String(view_name))}`);
}

import { widen } from '../../columns/widen.js';
import { quoteIdentifier } from '../../core/sql.js';
import type { StreamCommit } from '../../snapshot/commit.js';
import { snapshotRows } from '../../snapshot/snapshot-files.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { storeTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';

async function define({ session }: SnapshotStore, stream: string, query: string): Promise<void> {
  await session.run(`CREATE OR REPLACE TEMP VIEW ${quoteIdentifier(stream)} AS ${query}`);
}

/** Makes the rows that this run is about to commit visible to queries, under the stream's name. */
export async function showStream(store: SnapshotStore, { task, tables }: StreamCommit): Promise<void> {
  await define(store, task.stream, snapshotRows(task, tables));
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

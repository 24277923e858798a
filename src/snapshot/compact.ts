import { rm } from 'node:fs/promises';
import { sqlText } from '../core/sql.js';
import type { Database } from '../store/duckdb.js';
import { renameDurably, syncFile, temporaryName } from '../store/durable.js';
import type { JobLayout } from '../store/layout.js';
import { type SnapshotStore, type StoreState, storeName, storeTable } from './snapshot-store.js';

/** Space that is free for new rows is left alone up to this: a night that changes everything needs it. */
const freeShare = 0.5;
const leastFreeBytes = 16 * 1024 * 1024;

const compactedTable = (database: string) => `${database}._cdsync.compacted`;

/** Up to which commit the file is free of what rules have taken away. */
async function compactedSequence({ session }: SnapshotStore): Promise<number> {
  const known = await session.number(
    `SELECT count(*) FROM duckdb_tables() WHERE database_name = '${storeName}' AND schema_name = '_cdsync' AND table_name = 'compacted'`,
  );
  return known === 0 ? 0 : session.number(`SELECT max(sequence) FROM ${storeTable('compacted', '_cdsync')}`);
}

/** Why a store is to be written anew; undefined where it need not be. */
export type CompactionReason = 'rewritten' | 'free';

/** DuckDB never gives blocks back to the file system, and what was deleted stays readable in them. */
export async function compactionReason(store: SnapshotStore, state: StoreState): Promise<CompactionReason | undefined> {
  const rewritten = [...state.streams.values()].filter((stream) => stream.rewritten === true);
  const last = Math.max(0, ...rewritten.map(({ sequence }) => sequence));
  if (last > (await compactedSequence(store))) return 'rewritten';
  await store.session.run(`CHECKPOINT ${storeName}`);
  const [size] = await store.session.rows(
    `SELECT block_size, used_blocks, free_blocks FROM pragma_database_size() WHERE database_name = '${storeName}'`,
  );
  const free = Number(size?.free_blocks);
  const isMuch = free > freeShare * Number(size?.used_blocks) && free * Number(size?.block_size) > leastFreeBytes;
  return isMuch ? 'free' : undefined;
}

/**
 * Writes the store anew, without what is free in it. It must not be attached; readers find the old file or the
 * new one.
 */
async function compactStore(database: Database, layout: JobLayout, sequence: number): Promise<void> {
  const next = temporaryName(layout.store);
  const session = await database.connect();
  try {
    await session.run(`ATTACH ${sqlText(layout.store)} AS ${storeName} (READ_ONLY)`);
    await session.run(`ATTACH ${sqlText(next)} AS next_store`);
    await session.run('SET preserve_insertion_order = false');
    await session.run(`COPY FROM DATABASE ${storeName} TO next_store`);
    await session.run(
      `CREATE OR REPLACE TABLE ${compactedTable('next_store')} AS SELECT ${sequence}::BIGINT AS sequence`,
    );
    await session.run('DETACH next_store');
    await session.run(`DETACH ${storeName}`);
    await syncFile(next);
    await renameDurably(next, layout.store);
  } catch (error) {
    for (const name of ['next_store', storeName])
      await session.run(`DETACH DATABASE IF EXISTS ${name}`).catch(() => undefined);
    for (const path of [next, `${next}.wal`]) await rm(path, { force: true });
    throw error;
  } finally {
    await session.run('SET preserve_insertion_order = true').catch(() => undefined);
    session.close();
  }
}

/** Does what {@link compactionReason} has found; where it is only about space, a disk that is too full for it is no failure. */
export async function compact(
  database: Database,
  layout: JobLayout,
  { reason, sequence }: { reason: CompactionReason | undefined; sequence: number },
): Promise<void> {
  if (reason === undefined) return;
  try {
    await compactStore(database, layout, sequence);
  } catch (error) {
    if (reason === 'rewritten') throw error;
  }
}

import { rm } from 'node:fs/promises';
import { countLeaves } from '../columns/columns.js';
import { wideColumns } from '../columns/row-hash.js';
import { closeToOthers, renameDurably, syncFile, temporaryName } from '../core/durable.js';
import { asCdsyncError } from '../core/errors.js';
import { sqlText } from '../core/sql.js';
import { fileBlocks } from '../storage/database-file.js';
import { attachForWriting, type Database } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import { fittingCompression, SnapshotStore, type StoreState } from './snapshot-store.js';
import { internalComment, internalSchema, storeName, storeTable } from './store-tables.js';

/**
 * Free blocks up to this share of the used ones stay: a run that changes many rows needs them again. If the tables have many
 * columns, each commit does: DuckDB writes the description of all columns again before it gives back the one before.
 */
const freeShare = { usual: 0.5, wide: 1 };
const minFreeBytes = 16 * 1024 * 1024;

const compactedTable = (database: string) => `${database}.${internalSchema}.compacted`;

/** The last commit whose removed values are also gone from the blocks of the file. */
async function compactedSequence({ session }: SnapshotStore): Promise<number> {
  const changesOfRun = await session.number(
    `SELECT count(*) FROM duckdb_tables() WHERE database_name = '${storeName}' AND schema_name = '${internalSchema}' AND table_name = 'compacted'`,
  );
  return changesOfRun === 0
    ? 0
    : session.number(`SELECT max(sequence) FROM ${storeTable('compacted', internalSchema)}`);
}

/** Why a store must be rewritten: values were removed from it, or much of it is free. */
type CompactionReason = 'rewritten' | 'free';

/**
 * Says why the store must be rewritten; undefined if it need not be. DuckDB gives free blocks back to the file system
 * only at the end of the file, and deleted values stay readable in the others.
 */
export async function compactionReason(store: SnapshotStore, state: StoreState): Promise<CompactionReason | undefined> {
  const rewritten = [...state.streams.values()].filter((stream) => stream.rewritten === true);
  const last = Math.max(0, ...rewritten.map(({ sequence }) => sequence));
  const compacted = await compactedSequence(store);
  if (last > compacted) return 'rewritten';
  await store.checkpoint([...state.streams.values()]);
  // The space that a rewrite of the same rows left free, the next one would leave too.
  if (state.sequence <= compacted) return undefined;
  const { blockBytes, used, present } = await fileBlocks(store.session, storeName);
  const free = present - used;
  const leaves = [...state.streams.values()].reduce((sum, { columns }) => sum + countLeaves(columns), 0);
  const kept = leaves > wideColumns ? freeShare.wide : freeShare.usual;
  const isMuch = free > kept * used && free * blockBytes > minFreeBytes;
  return isMuch ? 'free' : undefined;
}

/** Rewrites the store without its free blocks. The store must not be attached. A reader finds the old file or the new one. */
async function compactStore(
  database: Database,
  layout: JobLayout,
  { sequence, blockBytes }: { readonly sequence: number; readonly blockBytes?: number },
): Promise<void> {
  const next = temporaryName(layout.store);
  const session = await database.connect();
  try {
    await session.run(`ATTACH ${sqlText(layout.store)} AS ${storeName} (READ_ONLY)`);
    const bytes = blockBytes ?? (await fileBlocks(session, storeName)).blockBytes;
    const compression = await fittingCompression(session, layout.store);
    await database.compress(compression);
    await session.run(attachForWriting(next, 'next_store', bytes));
    await session.run('SET preserve_insertion_order = false');
    // Large texts are zstd: one thread, because each has 2,048 rows in memory.
    const phase = compression === 'zstd' ? 'writing files' : 'other';
    await database.use(phase, {}, () => session.run(`COPY FROM DATABASE ${storeName} TO next_store`));
    await session.run(
      `CREATE OR REPLACE TABLE ${compactedTable('next_store')} AS SELECT ${sequence}::BIGINT AS sequence`,
    );
    await session.run(`COMMENT ON TABLE ${compactedTable('next_store')} IS '${internalComment}'`);
    await session.run('DETACH next_store');
    await session.run(`DETACH ${storeName}`);
    await closeToOthers(next);
    await syncFile(next);
    await renameDurably(next, layout.store);
  } catch (error) {
    for (const name of ['next_store', storeName])
      await session.run(`DETACH DATABASE IF EXISTS ${name}`).catch(() => undefined);
    for (const path of [next, `${next}.wal`]) await rm(path, { force: true });
    throw error;
  } finally {
    await session.run('SET preserve_insertion_order = true').catch(() => undefined);
    await database.compress('auto');
    session.close();
  }
}

/** A run publishes several times. */
const warned = new WeakSet<Database>();

/** Rewrites the store if there is a reason. A failure is thrown only if values must go: saving space can wait for a less full disk, and is reported once. */
export async function compact(
  database: Database,
  layout: JobLayout,
  {
    reason,
    sequence,
    notice,
  }: { reason: CompactionReason | undefined; sequence: number; notice: (line: string) => void },
): Promise<void> {
  if (reason === undefined) return;
  try {
    await compactStore(database, layout, { sequence });
  } catch (error) {
    if (reason === 'rewritten') throw error;
    const { message } = asCdsyncError(error);
    if (warned.has(database)) return;
    warned.add(database);
    notice(`warning: could not compact the store: ${message}`);
  }
}

/** A table with more leaves has several blocks of each in memory when DuckDB writes it again, most of them nearly empty. */
const leavesOfUsualBlocks = 200;

/** The smallest blocks that DuckDB has. */
const smallBlockBytes = 16_384;

/**
 * Opens the store, and gives it small blocks if its tables have many columns, because DuckDB takes a block for each column while it writes: 5,000
 * columns of one table took 1.5 GB with the usual ones. 20 tables of 33 columns took 820 MB for a few changes, and take 330 MB and a
 * quarter less CPU time; a large table takes up to a tenth more of it. Of a store of many tables, only attached files take memory.
 * @param widths the columns of each stream
 */
export async function openFitted(
  database: Database,
  layout: JobLayout,
  { sequence, widths }: { readonly sequence: number; readonly widths: readonly number[] },
): Promise<SnapshotStore> {
  const store = await SnapshotStore.open(database, layout);
  const leaves = widths.reduce((sum, width) => sum + width, 0);
  if (leaves <= wideColumns && Math.max(0, ...widths) <= leavesOfUsualBlocks) return store;
  try {
    // Small files, each read a few times: of hundreds of streams, DuckDB would keep 100 MB of them.
    await store.session.run('SET GLOBAL enable_external_file_cache = false');
    const { blockBytes } = await fileBlocks(store.session, storeName);
    if (blockBytes <= smallBlockBytes) return store;
  } catch (error) {
    await store.close();
    throw error;
  }
  await store.close();
  await compactStore(database, layout, { sequence, blockBytes: smallBlockBytes });
  return SnapshotStore.open(database, layout);
}

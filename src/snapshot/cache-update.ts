import { randomBytes } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { hashWords } from '../columns/record-hash.js';
import { fileText, fileTexts, sqlTexts } from '../core/sql.js';
import {
  type CacheHeader,
  cachePaths,
  promoteCacheFile,
  readCacheFile,
  removeCacheFile,
  writeCacheFile,
} from '../record-cache/cache-file.js';
import { type CacheMemory, requireFree } from '../record-cache/cache-memory.js';
import { RecordHashTable } from '../record-cache/hash-table.js';
import type { JobLayout } from '../storage/layout.js';
import { writeParquet } from '../storage/parquet.js';
import { type CachedRows, hitRowsSql } from '../storage/unchanged-rows.js';
import { replacedKeys } from './snapshot-files.js';
import type { SnapshotStore } from './snapshot-store.js';
import type { WorkTables } from './unify-parts.js';

/** The rows of a snapshot whose records the next run's cache has. */
export interface CacheUpdate {
  /** Of the hash, in hex. */
  readonly secret: string;
  readonly separator: CacheHeader['separator'];
  /** Digest of all that decides what becomes of a record's bytes. */
  readonly fingerprint: string;
  readonly cachedRows: CachedRows | null;
  /** The hash table of the reading, to be changed; undefined: a new one is made. */
  readonly set: RecordHashTable | undefined;
  /** The keys files of the parts. */
  readonly keysPaths: readonly string[];
  /** The stream's private folder in the run. */
  readonly folder: string;
  /** When every record was last converted and compared: ISO 8601. */
  readonly verifiedAt: string;
}

/** A stream after its commit, in the session that compared it. */
interface CacheUpdateTask {
  readonly caches: CacheMemory;
  readonly stream: string;
  readonly tables: WorkTables;
  /** The cache that this run has left for the next one: new, unchanged, or none. */
  readonly known: CacheUpdate | 'unchanged' | 'none';
  /** Whose rows they are: the store, and the run whose commit of the stream they are of. */
  readonly storeId: string;
  readonly runId: string;
}

/** SQL for (key, raw_hi, raw_lo) of the rows of the new snapshot that are in parts. */
function rowsThatCame({ tables }: CacheUpdateTask, { keysPaths }: CacheUpdate): string {
  const keys = `read_parquet(${fileTexts(keysPaths)}, union_by_name = true)`;
  return `SELECT k.key, r.raw_hi, r.raw_lo FROM ${tables.keys} AS k
    JOIN (SELECT part, row, raw_hi, raw_lo FROM ${keys} WHERE raw_hi IS NOT NULL) AS r ON k.part = r.part AND k.row = r.row`;
}

/** SQL for (key, raw_hi, raw_lo) of the rows of the new snapshot. */
function rowsNow(task: CacheUpdateTask, update: CacheUpdate): string {
  const { keysPaths, cachedRows } = update;
  const selects: string[] = [];
  if (keysPaths.length > 0) selects.push(rowsThatCame(task, update));
  if (cachedRows !== null)
    selects.push(
      `SELECT key, raw_hi, raw_lo FROM (${hitRowsSql(cachedRows)}) WHERE key NOT IN (${replacedKeys(task.tables)})`,
    );
  return selects.length > 0
    ? selects.join(' UNION ALL ')
    : 'SELECT NULL::VARCHAR AS key, NULL::UBIGINT AS raw_hi, NULL::UBIGINT AS raw_lo WHERE false';
}

/** Calls `visit` with the hash of each row (raw_hi, raw_lo) of a query: four words, in an array that is used again. */
async function eachHash({ session }: SnapshotStore, query: string, visit: (hash: Uint32Array) => void): Promise<void> {
  const hash = new Uint32Array(hashWords);
  for await (const [hi, lo] of session.words(query)) {
    if (hi === undefined || lo === undefined) throw new TypeError('two columns were asked for');
    for (let at = 0; at < hi.length; at += 2) {
      hash[0] = hi[at] as number;
      hash[1] = hi[at + 1] as number;
      hash[2] = lo[at] as number;
      hash[3] = lo[at + 1] as number;
      visit(hash);
    }
  }
}

/** The hashes of a keys file as a new set. */
async function newSet(store: SnapshotStore, path: string, rows: number): Promise<RecordHashTable> {
  const set = RecordHashTable.empty(rows);
  await eachHash(store, `SELECT raw_hi, raw_lo FROM read_parquet(${fileText(path)})`, (hash) => set.add(hash, 0));
  return set;
}

/**
 * Updates the hash table of the reading in its own memory: few hashes are removed and added.
 * @param rows how many rows the next run's cache will have
 * @returns undefined if a new set is needed; the old one is then of no use
 */
async function updatedSet(
  store: SnapshotStore,
  task: CacheUpdateTask,
  update: CacheUpdate,
  rows: number,
): Promise<RecordHashTable | undefined> {
  const { set, cachedRows, keysPaths } = update;
  // If two rows share a hash, it must stay as long as one of them does.
  if (set === undefined || cachedRows === null || set.count !== cachedRows.rows) return undefined;
  const { keysPath, unseenPath } = cachedRows;
  const replaced = `SELECT raw_hi, raw_lo FROM read_parquet(${fileText(keysPath)}) WHERE key IN (${replacedKeys(task.tables)})`;
  await eachHash(store, replaced, (hash) => set.remove(hash, 0));
  if (unseenPath !== null)
    await eachHash(store, `FROM read_parquet(${fileText(unseenPath)})`, (hash) => set.remove(hash, 0));
  if (!set.hasCapacity(rows - set.count)) return undefined;
  if (keysPaths.length > 0) {
    const read = `SELECT raw_hi, raw_lo FROM (${rowsThatCame(task, update)})`;
    await eachHash(store, read, (hash) => set.add(hash, 0));
  }
  return set.count === rows ? set : undefined;
}

/** Where a cache file is written, until it may take its place. */
function nextFolder(folder: string): string {
  return join(folder, 'next');
}

interface NextCacheFile {
  /** SQL for (key, raw_hi, raw_lo) of its rows. */
  readonly query: string;
  readonly folder: string;
  readonly about: Pick<CacheHeader, 'store_id' | 'run_id' | 'fingerprint' | 'secret' | 'separator' | 'verified_at'>;
  /** The hashes of that many rows, if they are available. */
  readonly setOf?: (rows: number) => Promise<RecordHashTable | undefined>;
}

/** Writes a cache file. @returns its id */
async function writeKnown(
  store: SnapshotStore,
  { query, folder, about, setOf = async () => undefined }: NextCacheFile,
): Promise<string> {
  const id = randomBytes(16).toString('hex');
  const next = nextFolder(folder);
  const { image, keys } = cachePaths(next);
  await rm(next, { recursive: true, force: true });
  await mkdir(next, { recursive: true, mode: 0o700 });
  const { rows, sha256, path } = await writeParquet(store.session, query, keys(id), { compression: 'snappy' });
  const set = (await setOf(rows)) ?? (await newSet(store, path, rows));
  try {
    await writeCacheFile(image, set, { id, ...about, keys: { rows, sha256 } });
  } finally {
    set.free();
  }
  return id;
}

/** Puts a cache file in the place of the one before. */
async function promote(folder: string, cachePath: string, id: string): Promise<void> {
  const next = nextFolder(folder);
  await promoteCacheFile(next, cachePath, id);
  await rm(next, { recursive: true, force: true });
}

/** Puts the next cache file in its place, after the commit whose rows it has. */
export type CommitCacheUpdate = () => Promise<void>;

/**
 * Writes the next run's cache file, and frees the hash table. Until the commit, the cache file before stays. Nothing depends on it
 * but the cost of that run.
 * @throws {CdsyncError} and errors of the file system
 */
export async function prepareCacheUpdate(
  store: SnapshotStore,
  layout: JobLayout,
  task: CacheUpdateTask,
): Promise<CommitCacheUpdate> {
  const { known } = task;
  const folder = layout.known(task.stream);
  if (known === 'unchanged') return async () => undefined;
  if (known === 'none') return () => removeCacheFile(folder);
  const about = {
    store_id: task.storeId,
    run_id: task.runId,
    fingerprint: known.fingerprint,
    secret: known.secret,
    separator: known.separator,
    verified_at: known.verifiedAt,
  };
  const { caches, stream } = task;
  const setOf = async (rows: number) => {
    const updated = await updatedSet(store, task, known, rows);
    if (updated !== undefined) return updated;
    known.set?.free();
    const bytes = RecordHashTable.bytesFor(rows);
    requireFree(caches, stream, bytes);
    await caches.hold(stream, bytes);
    return undefined;
  };
  try {
    const id = await writeKnown(store, { query: rowsNow(task, known), folder: known.folder, about, setOf });
    return () => promote(known.folder, folder, id);
  } finally {
    known.set?.free();
    await caches.hold(stream, 0);
  }
}

/** Rows that are erased from a snapshot. */
interface CacheErasure {
  readonly stream: string;
  readonly keys: readonly string[];
  readonly storeId: string;
  /** The commit of the stream before, and the one that erases the rows. */
  readonly before: string;
  readonly runId: string;
  /** A private folder for new files. */
  readonly folder: string;
}

/** Removes erased rows from the next run's cache. */
export async function eraseFromCache(store: SnapshotStore, layout: JobLayout, task: CacheErasure): Promise<void> {
  const { stream, keys, storeId, before, runId, folder } = task;
  const cachePath = layout.known(stream);
  const { header, table } = (await readCacheFile(cachePath, () => undefined).catch(() => undefined)) ?? {};
  if (header === undefined || table === undefined || header.store_id !== storeId || header.run_id !== before) {
    table?.free();
    return removeCacheFile(cachePath);
  }
  const all = `SELECT key, raw_hi, raw_lo FROM read_parquet(${fileText(cachePaths(cachePath).keys(header.id))}) WHERE key`;
  const list = `(SELECT unnest(${sqlTexts(keys)}))`;
  const { fingerprint, secret, separator, verified_at } = header;
  const about = { store_id: storeId, run_id: runId, fingerprint, secret, separator, verified_at };
  const setOf = async (rows: number) => {
    await eachHash(store, `SELECT raw_hi, raw_lo FROM (${all} IN ${list})`, (hash) => table.remove(hash, 0));
    if (table.count === rows) return table;
    // Two rows have shared a hash: it must stay as long as one of them does.
    table.free();
    return undefined;
  };
  // Whatever becomes of the new file, the old one must go.
  await writeKnown(store, { query: `${all} NOT IN ${list}`, folder, about, setOf })
    .then((id) => promote(folder, cachePath, id))
    .catch(() => removeCacheFile(cachePath));
}

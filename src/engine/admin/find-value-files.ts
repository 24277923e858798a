import { open, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { rowKey } from '../../columns/row-hash.js';
import { CdsyncError } from '../../core/errors.js';
import { entriesBelow } from '../../core/folders.js';
import { fileText, fileTexts, quoteIdentifier, sqlText, sqlTexts } from '../../core/sql.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { beforeTable, changesTable, storeTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { Session } from '../../storage/duckdb.js';
import type { JobLayout } from '../../storage/layout.js';
import { runFolders } from '../../storage/storage.js';

/** Files below a folder, with one of these endings if any are listed; none if there is no such folder. */
async function filesBelow(folder: string, ...endings: string[]): Promise<string[]> {
  const entries = await entriesBelow(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return entries
    .filter(({ name }) => endings.length === 0 || endings.some((ending) => name.endsWith(ending)))
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

/**
 * Finds which of some keys a stream still has anywhere: in the store's snapshot, changes and history, in Parquet files of any run,
 * in rejects, or in uncommitted parts.
 */
export async function findKeys(
  { session }: SnapshotStore,
  layout: JobLayout,
  state: StreamState,
  keys: readonly string[],
): Promise<ReadonlySet<string>> {
  const { stream } = state;
  const wanted = `SELECT unnest(${sqlTexts(keys)}) AS key`;
  const own = `${rowKey(state.key)} AS key`;
  const tables = [storeTable(stream), changesTable(state.stream), beforeTable(stream)].map(
    (table) => `SELECT ${own} FROM ${table}`,
  );
  const rejects = `SELECT key FROM ${storeTable('rejects', 'cdsync')} WHERE stream = ${sqlText(stream)}`;
  const files = await filesBelow(layout.stream(stream), '.parquet');
  const runs = await runFolders(layout);
  const readings = runs.map((runId) => join(layout.streamRun(runId, stream), 'parts'));
  const keysFiles = (await Promise.all(readings.map((folder) => filesBelow(folder, '.keys')))).flat();
  const sources = [
    ...tables,
    rejects,
    ...files.map((path) => `SELECT ${own} FROM read_parquet(${fileTexts([path])})`),
    ...keysFiles.map((path) => `SELECT ${quoteIdentifier('key')} FROM read_parquet(${fileTexts([path])})`),
  ];
  const found = new Set<string>();
  for (const source of sources) {
    const rows = await session.rows(`SELECT DISTINCT key FROM (${source}) WHERE key IN (SELECT key FROM (${wanted}))`);
    for (const { key } of rows) found.add(String(key));
  }
  const waiting = (await Promise.all(readings.map((folder) => filesBelow(folder, '.rejects.jsonl')))).flat();
  for (const text of await Promise.all(waiting.map((path) => readFile(path, 'utf8'))))
    for (const line of text.split('\n').filter((each) => each !== '')) {
      const key = String((JSON.parse(line) as { key: unknown }).key);
      if (keys.includes(key)) found.add(key);
    }
  return found;
}

/** The error for a key that no row has. It names the position of the key, not the key itself. */
export function absentKey(stream: string, keys: readonly string[], index: number): CdsyncError {
  const which = keys.length === 1 ? 'this key' : `key ${index + 1} of ${keys.length}`;
  const key = keys[index] ?? '';
  const isList = key.includes(',') && !key.startsWith('[');
  const advice = isList
    ? 'separate keys by spaces, not by commas'
    : 'write the key as the service does; `--even-if-absent` erases it anyway, from destinations and damaged files';
  return new CdsyncError(`no row of ${stream} has ${which}; nothing was deleted`, {
    code: 'key_not_found',
    hint: advice,
  });
}

/** A shorter text may occur anywhere by chance. */
const leastTextBytes = 6;
const chunkBytes = 4 * 1024 * 1024;

async function holds(path: string, texts: readonly Buffer[]): Promise<boolean> {
  const overlap = Math.max(...texts.map(({ length }) => length));
  const chunk = Buffer.alloc(chunkBytes + overlap);
  const handle = await open(path, 'r');
  try {
    let kept = 0;
    for (;;) {
      const { bytesRead } = await handle.read(chunk, kept, chunkBytes);
      if (bytesRead === 0) return false;
      const filled = chunk.subarray(0, kept + bytesRead);
      if (texts.some((text) => filled.includes(text))) return true;
      kept = Math.min(overlap, filled.length);
      chunk.copyWithin(0, filled.length - kept, filled.length);
    }
  } finally {
    await handle.close();
  }
}

/** Compression hides the texts from a search for bytes, so DuckDB reads the rows. */
async function parquetHolds(session: Session, path: string, texts: readonly string[]): Promise<boolean> {
  const row = 'to_json(_cdsync_row)::VARCHAR';
  const found = texts.map((text) => `contains(${row}, ${sqlText(JSON.stringify(text).slice(1, -1))})`);
  return (
    (await session.number(
      `SELECT count(*) FROM read_parquet(${fileText(path)}) AS _cdsync_row WHERE ${found.join(' OR ')}`,
    )) > 0
  );
}

/** Lock files are not opened: closing one would drop the lock that DuckDB has on it in this process. */
function isLockFile(layout: JobLayout, path: string): boolean {
  return path === layout.lock || (path.startsWith(`${layout.deliveries}/`) && path.endsWith('/lock.duckdb'));
}

/**
 * Finds files of a job that contain one of the texts, as bytes or in Parquet. Skips short texts, and the list of keys that
 * destinations have yet to erase.
 * @returns paths relative to the job's folder
 */
export async function filesWith(session: Session, layout: JobLayout, texts: readonly string[]): Promise<string[]> {
  const searched = texts.filter((text) => Buffer.byteLength(text) >= leastTextBytes);
  if (searched.length === 0) return [];
  const bytes = searched.map((text) => Buffer.from(text));
  const found: string[] = [];
  const awaited = `${layout.erasuresFolder}/`;
  for (const path of await filesBelow(layout.folder)) {
    if (path.startsWith(awaited) || isLockFile(layout, path)) continue;
    const has =
      (await holds(path, bytes)) || (path.endsWith('.parquet') && (await parquetHolds(session, path, searched)));
    if (has) found.push(relative(layout.folder, path));
  }
  return found.sort();
}

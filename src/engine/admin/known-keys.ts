import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { rowKey } from '../../columns/row-hash.js';
import { CdsyncError } from '../../core/errors.js';
import { fileTexts, quoteIdentifier, sqlText, sqlTexts } from '../../core/sql.js';
import type { SnapshotStore } from '../../snapshot/snapshot-store.js';
import { beforeTable, changesTable, storeTable } from '../../snapshot/store-tables.js';
import type { StreamState } from '../../snapshot/stream-state.js';
import type { JobLayout } from '../../storage/layout.js';
import { runFolders } from '../../storage/storage.js';

/** Files below a folder with one of these endings; none if there is no such folder. */
async function filesBelow(folder: string, ...endings: string[]): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries
    .filter((entry) => entry.isFile() && endings.some((ending) => entry.name.endsWith(ending)))
    .map((entry) => join(entry.parentPath, entry.name));
}

/** Keys in the rejects that runs have not committed. */
async function rejectedKeys(paths: readonly string[]): Promise<string[]> {
  const texts = await Promise.all(paths.map((path) => readFile(path, 'utf8')));
  const lines = texts.flatMap((text) => text.split('\n')).filter((line) => line !== '');
  return lines.map((line) => String((JSON.parse(line) as { key: unknown }).key));
}

/**
 * Those of some keys that anything kept of a stream has: its snapshot, changes and history in the store, its Parquet files of all
 * runs, its rejects, and what was read but not committed.
 */
export async function knownKeys(
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
  for (const key of await rejectedKeys(waiting)) if (keys.includes(key)) found.add(key);
  return found;
}

/** The error for a key that nothing has. It names the place of the key, not the key itself. */
export function absentKey(stream: string, keys: readonly string[], index: number): CdsyncError {
  const which = keys.length === 1 ? 'this key' : `key ${index + 1} of ${keys.length}`;
  const key = keys[index] ?? '';
  const isList = key.includes(',') && !key.startsWith('[');
  const advice = isList
    ? 'separate keys by spaces, not by commas'
    : 'write the key as the service does; `--even-if-absent` erases all the same, for copies in destinations or damaged files';
  return new CdsyncError(`no row of ${stream} has ${which}; nothing was deleted`, {
    code: 'key_not_found',
    hint: advice,
  });
}

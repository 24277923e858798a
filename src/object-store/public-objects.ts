import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { S3Store } from '../sdk/index.js';
import type { LocalCache } from './local-cache.js';
import { type ObjectStore, withRetry } from './objects.js';
import { type Entry, isLink, objectOf, type StoredFile } from './state.js';

/*
 * Public objects have keys that stay the same: `<job>.duckdb`, `parquet/<stream>/manifest.json`, `reports/…`. They are written after
 * the state, one object each, so each of them is whole at any time. The data files that a manifest names have names of their own,
 * and stay for a day after the manifest names others.
 */

/** An object that stores copy within themselves has at most this many bytes. */
const maxCopyBytes = 5_000_000_000;

interface PublicObjectsTask {
  readonly store: S3Store;
  readonly objects: ObjectStore;
  readonly cache: LocalCache;
  readonly files: ReadonlyMap<string, Entry>;
  /** The checksums of the public objects now, by key. */
  readonly shown: Readonly<Record<string, string>>;
}

async function copyToPublicKey(
  { store, objects, cache }: PublicObjectsTask,
  file: StoredFile,
  key: string,
): Promise<void> {
  if (file.bytes <= maxCopyBytes)
    await withRetry(() => store.copy(objects.key(objectOf(file.path, file.sha256)), objects.key(key)));
  else {
    await withRetry(() => store.put(cache.path(file.path), objects.key(key)));
    objects.countUpload(file.bytes);
  }
}

/** The file whose content people read at a path of the job; undefined if they read none there. */
export function publicFileAt(files: ReadonlyMap<string, Entry>, path: string): StoredFile | undefined {
  const entry = files.get(path);
  if (entry === undefined) return undefined;
  const file = isLink(entry) && !path.includes('/') ? files.get(entry.link) : undefined;
  if (isLink(entry)) return file === undefined || isLink(file) ? undefined : file;
  return path.startsWith('reports/') ? entry : undefined;
}

/** Updates the public objects, also those that an earlier run could not. @returns their checksums, by key */
export async function updatePublicObjects(task: PublicObjectsTask): Promise<Record<string, string>> {
  const { store, objects, cache, files } = task;
  const shown = { ...task.shown };
  for (const path of files.keys()) {
    const file = publicFileAt(files, path);
    if (file !== undefined && shown[path] !== file.sha256) {
      await copyToPublicKey(task, file, path);
      shown[path] = file.sha256;
    } else if (/^parquet\/[^/]+\/manifest\.json$/.test(path)) {
      const text = manifestOf(JSON.parse(await readFile(cache.path(path), 'utf8')), path.split('/')[1] ?? '', files);
      const sum = createHash('sha256').update(text).digest('hex');
      if (shown[path] === sum) continue;
      await withRetry(() => store.putBytes(Buffer.from(text), objects.key(path)));
      objects.countUpload(Buffer.byteLength(text));
      shown[path] = sum;
    }
  }
  const removed = Object.keys(shown).filter((path) => path.startsWith('reports/') && !files.has(path));
  if (removed.length > 0) await withRetry(() => store.remove(removed.map((path) => objects.key(path))));
  for (const path of removed) delete shown[path];
  return shown;
}

/** The manifest of a stream with the names that its files have in the bucket, and with the files of its changes, run by run. */
export function manifestOf(
  local: { readonly files: readonly { readonly path: string; readonly sha256: string }[] },
  stream: string,
  files: ReadonlyMap<string, Entry>,
): string {
  const folder = `parquet/${stream}/`;
  const inBucket = (sha256: string) => `files/${sha256}.parquet`;
  const changes = [...files.values()].flatMap((entry) => {
    if (isLink(entry) || !entry.path.startsWith(`${folder}changes/`)) return [];
    const { bytes, sha256 } = entry;
    return [{ run_id: entry.path.split('/')[3], path: inBucket(sha256), bytes, sha256 }];
  });
  const named = { ...local, files: local.files.map((file) => ({ ...file, path: inBucket(file.sha256) })), changes };
  return `${JSON.stringify(named, null, 1)}\n`;
}

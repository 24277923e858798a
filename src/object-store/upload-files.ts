import { open, readlink, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type Blocks, blockAt, blocksOf, patchOf, readAt } from './blocks.js';
import type { LocalCache, LocalFile } from './local-cache.js';
import type { ObjectStore } from './objects.js';
import { storePath } from './required-files.js';
import { type Entry, isLink, type ObjectParts, objectOf, objectsOf, piecesOf, type StoredFile } from './state.js';

interface UploadTask {
  readonly cache: LocalCache;
  readonly objects: ObjectStore;
  /** The files of the state that was read. */
  readonly before: ReadonlyMap<string, Entry>;
  /** Files of the job that are not on this disk. */
  readonly absent: ReadonlyMap<string, StoredFile>;
  /** The objects that are in the bucket; new ones are added. */
  readonly has: Set<string>;
}

/** Uploads the files that the bucket lacks. @returns all files of the job, by path */
export async function uploadFiles(task: UploadTask): Promise<Map<string, Entry>> {
  const { cache, absent } = task;
  const { files } = await cache.files();
  // The link to the published database: the only one at the top.
  const link = files.find(({ path, stats }) => stats.isSymbolicLink() && !path.includes('/'))?.path;
  const shown = await readlink(cache.path(link ?? '')).catch(() => undefined);
  const isOld = (path: string) => path.startsWith('published/') && path !== shown;
  const entries = new Map<string, Entry>();
  // The store last: its published copy may have the same content.
  for (const file of [...files].sort((a, b) => Number(a.path === storePath) - Number(b.path === storePath))) {
    if (isOld(file.path)) continue;
    const entry = file.stats.isSymbolicLink()
      ? { path: file.path, link: await readlink(cache.path(file.path)) }
      : file.stats.isFile() && (await uploadFile(task, file));
    if (entry) entries.set(file.path, entry);
  }
  for (const [path, entry] of absent) {
    if (isOld(path) || entries.has(path) || !(await isFolder(cache.path(dirname(path))))) continue;
    entries.set(path, entry);
  }
  cache.forgetOtherHashes(new Set(files.map(({ path }) => path)));
  return new Map([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** A removed folder also removes files that are only in the bucket. */
async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true;
}

async function uploadFile(task: UploadTask, file: LocalFile): Promise<StoredFile> {
  const { cache, objects, before, has } = task;
  const { path, stats } = file;
  const knownEntry = before.get(path);
  const sha256 = await cache.hashOf(file);
  const mode = stats.mode & 0o777;
  const isWhole =
    knownEntry !== undefined && !isLink(knownEntry) && objectsOf([knownEntry]).every((object) => has.has(object));
  const whole = isWhole ? knownEntry : undefined;
  const isKept = whole?.sha256 === sha256;
  if (isKept && whole.mode === mode) return whole;
  const entry: StoredFile = { path, bytes: stats.size, sha256, changed_ms: Math.floor(stats.mtimeMs), mode };
  if (isKept && whole.pieces !== undefined) return { ...entry, pieces: whole.pieces };
  if (has.has(objectOf(path, sha256))) {
    if (path === storePath) cache.rememberBlocks(await blocksOf(cache.path(path)));
    return entry;
  }
  const pieces = path === storePath ? await uploadBlocks(task, whole) : undefined;
  if (pieces !== undefined) return { ...entry, pieces };
  has.add(await objects.uploadFile(cache.path(path), entry));
  return entry;
}

/** Uploads the blocks of the store that the bucket lacks. @returns undefined if the whole file must be uploaded */
async function uploadBlocks(
  { cache, objects, has }: UploadTask,
  knownEntry: Entry | undefined,
): Promise<ObjectParts | undefined> {
  const before = cache.manifest.blocks;
  const currentBlocks = await blocksOf(cache.path(storePath));
  cache.rememberBlocks(currentBlocks);
  if (knownEntry === undefined || isLink(knownEntry) || before?.sha256 !== knownEntry.sha256) return undefined;
  const patch = patchOf({ blocks: before, pieces: piecesOf(knownEntry) }, currentBlocks);
  if (patch === undefined) return undefined;
  const object =
    patch.bytes === 0
      ? undefined
      : await objects.uploadPacked(await readBlocks(cache.path(storePath), patch.changed, currentBlocks));
  if (object !== undefined) has.add(object.object);
  return { objects: [...patch.objects, ...(object === undefined ? [] : [object])], ranges: patch.ranges };
}

async function readBlocks(path: string, indexes: readonly number[], { bytes: size }: Blocks): Promise<Buffer> {
  const handle = await open(path, 'r');
  try {
    const blocks: Buffer[] = [];
    for (const index of indexes) {
      const { from, bytes } = blockAt(index, size);
      const block = Buffer.allocUnsafe(bytes);
      await readAt(handle, block, from);
      blocks.push(block);
    }
    return Buffer.concat(blocks);
  } finally {
    await handle.close();
  }
}

/** The objects that are in the bucket because files name them. */
export function objectsIn(...lists: readonly (readonly Entry[])[]): Set<string> {
  return new Set(lists.flatMap((files) => objectsOf(files)));
}

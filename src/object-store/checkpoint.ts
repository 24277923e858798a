import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { readAt } from './blocks.js';
import type { LocalCache, LocalFile } from './local-cache.js';
import type { ObjectStore } from './objects.js';
import { type Entry, type ObjectParts, objectOf, runsFolder, type StoredFile } from './state.js';

/** Files of a stream's folder that only grow. */
function grows(path: string): boolean {
  return path.endsWith('/journal.jsonl') || path.endsWith('/cache-hits.log');
}

/** Files of runs that have not ended, and what says which workflows such a run has started. */
function isUnderWay(path: string): boolean {
  return path.startsWith(runsFolder) || path === '.cdsync/workflows.json';
}

/** The part of a growing file that the bucket has. */
interface Grown {
  bytes: number;
  readonly hash: Hash;
  readonly pieces: { objects: ObjectParts['objects']; ranges: ObjectParts['ranges'] };
}

/** Uploads the files of an unfinished run, so that another machine can resume it. */
export class Checkpoints {
  readonly #cache: LocalCache;
  readonly #objects: ObjectStore;
  /** The objects that are in the bucket. */
  readonly #has: Set<string>;
  readonly #grown = new Map<string, Grown>();

  constructor(cache: LocalCache, objects: ObjectStore, has: Set<string>) {
    this.#cache = cache;
    this.#objects = objects;
    this.#has = has;
  }

  /**
   * Uploads the files of unfinished runs. Journals are read before the files that they name, which are whole by then and
   * stay as they are.
   * @returns the files; undefined if the run removed some during the upload
   */
  async upload(): Promise<Entry[] | undefined> {
    try {
      const first = await this.#growing(({ path }) => path.endsWith('/journal.jsonl'));
      const logs = await this.#growing(({ path }) => path.endsWith('/cache-hits.log'));
      const others: StoredFile[] = [];
      for (const file of await this.#files(({ path }) => !grows(path))) others.push(await this.#whole(file));
      return [...others, ...logs, ...first];
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT' || error instanceof RangeError) return undefined;
      throw error;
    }
  }

  async #files(which: (file: LocalFile) => boolean): Promise<LocalFile[]> {
    const { files } = await this.#cache.files();
    return files.filter((file) => isUnderWay(file.path) && file.stats.isFile() && which(file));
  }

  async #whole(file: LocalFile): Promise<StoredFile> {
    const { path, stats } = file;
    const sha256 = await this.#cache.hashOf(file);
    const entry = { path, bytes: stats.size, sha256, changed_ms: Math.floor(stats.mtimeMs), mode: stats.mode & 0o777 };
    const object = objectOf(path, sha256);
    if (!this.#has.has(object)) this.#has.add(await this.#objects.uploadFile(this.#cache.path(path), entry));
    return entry;
  }

  async #growing(which: (file: LocalFile) => boolean): Promise<StoredFile[]> {
    const entries: StoredFile[] = [];
    for (const file of await this.#files(which)) entries.push(await this.#tail(file));
    return entries;
  }

  /** Uploads the new end of a growing file, except an incomplete last line of a journal. */
  async #tail({ path, stats }: LocalFile): Promise<StoredFile> {
    const bytes = path.endsWith('.jsonl') ? (await readFile(this.#cache.path(path))).lastIndexOf(0x0a) + 1 : stats.size;
    let grownFile = this.#grown.get(path);
    // A stream that is read again from its start has another journal under the same name, perhaps already a longer one.
    if (grownFile === undefined || !(await isContinued(this.#cache.path(path), grownFile, bytes)))
      grownFile = { bytes: 0, hash: createHash('sha256'), pieces: { objects: [], ranges: [] } };
    this.#grown.set(path, grownFile);
    if (bytes > grownFile.bytes || grownFile.pieces.objects.length === 0) {
      const tail = await readRange(this.#cache.path(path), grownFile.bytes, bytes);
      const object = await this.#objects.uploadPacked(tail);
      grownFile.pieces.ranges.push([grownFile.pieces.objects.length, 0, tail.length]);
      grownFile.pieces.objects.push(object);
      grownFile.hash.update(tail);
      grownFile.bytes = bytes;
    }
    return {
      path,
      bytes,
      sha256: grownFile.hash.copy().digest('hex'),
      changed_ms: Math.floor(stats.mtimeMs),
      mode: stats.mode & 0o777,
      pieces: { objects: [...grownFile.pieces.objects], ranges: [...grownFile.pieces.ranges] },
    };
  }
}

/** Whether a file still begins with the uploaded bytes. */
async function isContinued(path: string, { bytes: uploaded, hash }: Grown, bytes: number): Promise<boolean> {
  if (uploaded > bytes) return false;
  const found = createHash('sha256');
  if (uploaded > 0)
    for await (const chunk of createReadStream(path, { end: uploaded - 1 })) found.update(chunk as Buffer);
  return found.digest('hex') === hash.copy().digest('hex');
}

async function readRange(path: string, from: number, to: number): Promise<Buffer> {
  const handle = await open(path, 'r');
  try {
    const bytes = Buffer.allocUnsafe(to - from);
    await readAt(handle, bytes, from);
    return bytes;
  } finally {
    await handle.close();
  }
}

import type { Stats } from 'node:fs';
import { lstat, mkdir, readdir, readlink, rename, rm, rmdir, symlink, utimes } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import pLimit from 'p-limit';
import {
  readStateIfUsable,
  setMode,
  sha256OfFile,
  statOrUndefined,
  temporaryName,
  writeStateFile,
} from '../core/durable.js';
import { z } from '../core/zod.js';
import { currentProcess, isOwnerAlive } from '../storage/job-lock.js';
import { folderMode } from '../storage/storage.js';
import type { Blocks } from './blocks.js';
import type { ObjectStore } from './objects.js';
import { isLocal, storePath } from './required-files.js';
import { type Entry, isLink, piecesSchema, type StoredFile } from './state.js';

/** Files that are downloaded in parallel. */
const filesAtOnce = 8;

const recordSchema = z.object({ bytes: z.number(), changed_ms: z.number(), inode: z.number(), sha256: z.string() });

const manifestSchema = z.object({
  version: z.literal(1),
  /** The job's folder in the bucket. */
  place: z.string(),
  /** The state that was last downloaded or uploaded; null: none. */
  commit: z.string().nullable(),
  generation: z.number(),
  /** The last owner of the lease on this machine; null during a download. */
  owner: z.string().nullable(),
  /** Files of the job that are only in the bucket. */
  absent: z.array(z.string()),
  /** Hashes of files, so that unchanged files are not read again. */
  files: z.record(z.string(), recordSchema),
  /** The store on this disk, and how it is made of objects: another one with the same objects needs only what differs. */
  stored: z.object({ sha256: z.string(), pieces: piecesSchema }).nullable().default(null),
  blocks: z.object({ bytes: z.number(), sha256: z.string(), hashes: z.array(z.string()) }).nullable(),
});

/** The state of a cache, kept beside it. */
type CacheManifest = z.infer<typeof manifestSchema>;
type FileRecord = z.infer<typeof recordSchema>;

/** A file on this disk. */
export interface LocalFile {
  readonly path: string;
  readonly stats: Stats;
}

/** The manifest of a cache without files of the bucket. */
function emptyManifest(place: string): CacheManifest {
  return {
    version: 1,
    place,
    commit: null,
    generation: 0,
    owner: null,
    absent: [],
    files: {},
    stored: null,
    blocks: null,
  };
}

/** The folder of a job on this machine, and the hashes of its files. */
export class LocalCache {
  readonly folder: string;
  readonly #manifestPath: string;
  readonly #lockPath: string;
  #manifest: CacheManifest;
  /** Whether it was used before. */
  readonly hasManifest: boolean;
  /** The path of its manifest, if that is there and cannot be read: then the state of the folder is not known. */
  readonly damaged: string | undefined;

  private constructor(
    folder: string,
    paths: { manifest: string; lock: string },
    manifest: CacheManifest | undefined,
    { place, isThere }: { readonly place: string; readonly isThere: boolean },
  ) {
    this.folder = folder;
    this.#manifestPath = paths.manifest;
    this.#lockPath = paths.lock;
    this.#manifest = manifest ?? emptyManifest(place);
    this.hasManifest = manifest !== undefined;
    this.damaged = manifest === undefined && isThere ? paths.manifest : undefined;
  }

  /** @param place the job's folder in the bucket, as messages name it */
  static async open(cache: string, job: string, place: string): Promise<LocalCache> {
    const marker = join(cache, '.bucket');
    await mkdir(marker, { recursive: true, mode: 0o700 });
    const paths = { manifest: join(marker, `${job}.json`), lock: join(marker, `${job}.lock`) };
    const manifest = await readStateIfUsable(paths.manifest, manifestSchema);
    const isThere = manifest !== undefined || (await statOrUndefined(paths.manifest)) !== undefined;
    return new LocalCache(join(cache, job), paths, manifest, { place, isThere });
  }

  get manifest(): CacheManifest {
    return this.#manifest;
  }

  /** Makes it the empty cache of another place. */
  async resetTo(place: string): Promise<void> {
    await this.updateManifest(emptyManifest(place));
  }

  async updateManifest(change: Partial<Omit<CacheManifest, 'version'>>): Promise<void> {
    this.#manifest = { ...this.#manifest, ...change };
    await writeStateFile(this.#manifestPath, this.#manifest);
  }

  /** Forgets all hashes: the next command reads every file, and downloads those that differ from the bucket. */
  invalidate(): Promise<void> {
    return this.updateManifest({ owner: null, files: {}, stored: null, blocks: null });
  }

  /**
   * Keeps other processes of this machine from changing the files.
   * @returns undefined if another one has the right
   */
  async lock(): Promise<(() => Promise<void>) | undefined> {
    const path = this.#lockPath;
    // A link gets its name and its content in one step: no process finds a lock without its owner.
    const owner = JSON.stringify(await currentProcess(new Date().toISOString()));
    for (let attempt = 0; attempt < 2; attempt += 1) {
      try {
        await symlink(owner, path);
        return () => rm(path, { force: true });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
      const target = await readlink(path).catch(() => undefined);
      if (await isHeldByOther(target)) return undefined;
      await removeLock(path, target);
    }
    return undefined;
  }

  path(of: string): string {
    return join(this.folder, of);
  }

  /** Every file of the job that is there, but for those of this machine alone; and the folders, the innermost first. */
  async files(): Promise<{ files: LocalFile[]; folders: string[] }> {
    const files: LocalFile[] = [];
    const folders: string[] = [];
    const walk = async (folder: string): Promise<void> => {
      const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return [];
        throw error;
      });
      for (const name of names.sort()) {
        const at = join(folder, name);
        const path = relative(this.folder, at);
        const stats = await lstat(at).catch((error: NodeJS.ErrnoException) => {
          if (error.code === 'ENOENT') return undefined;
          throw error;
        });
        if (stats === undefined || isLocal(path)) continue;
        if (!stats.isDirectory()) files.push({ path, stats });
        else {
          await walk(at);
          folders.push(path);
        }
      }
    };
    await walk(this.folder);
    return { files, folders };
  }

  /** The checksum of a file; it is read only if it may have changed since it was last read. */
  async hashOf({ path, stats }: LocalFile): Promise<string> {
    const record = this.#manifest.files[path];
    if (record !== undefined && isSame(record, stats)) return record.sha256;
    const sha256 = await sha256OfFile(this.path(path));
    this.rememberHash({ path, stats }, sha256);
    return sha256;
  }

  rememberHash({ path, stats }: LocalFile, sha256: string): void {
    this.#manifest.files[path] = { bytes: stats.size, changed_ms: stats.mtimeMs, inode: stats.ino, sha256 };
  }

  rememberBlocks(blocks: Blocks | null): void {
    this.#manifest = { ...this.#manifest, blocks: blocks && { ...blocks, hashes: [...blocks.hashes] } };
  }

  /** Forgets files that are gone. */
  forgetOtherHashes(paths: ReadonlySet<string>): void {
    for (const path of Object.keys(this.#manifest.files)) if (!paths.has(path)) delete this.#manifest.files[path];
  }

  /** Whether a file on the disk has the content of an entry. */
  async #matches(file: LocalFile, entry: Entry): Promise<boolean> {
    const { path, stats } = file;
    if (isLink(entry)) return stats.isSymbolicLink() && (await readlink(this.path(path))) === entry.link;
    return stats.isFile() && stats.size === entry.bytes && (await this.hashOf(file)) === entry.sha256;
  }

  /**
   * Makes the folder equal to the bucket: removes other files, makes the folders, downloads the needed files.
   * @returns the files of the job that are not on this disk now
   */
  async synchronize(
    target: ReadonlyMap<string, Entry>,
    { objects, needs, signal }: { objects: ObjectStore; needs: (path: string) => boolean; signal?: AbortSignal },
  ): Promise<Map<string, StoredFile>> {
    const { files, folders } = await this.files();
    const present = new Set<string>();
    for (const file of files) {
      const entry = target.get(file.path);
      if (entry !== undefined && (await this.#matches(file, entry))) present.add(file.path);
      else if (entry !== undefined && needs(file.path) && (await this.#isNear(file))) continue;
      else await rm(this.path(file.path), { force: true });
    }
    // A run that was killed after its commit leaves the log of it. DuckDB would add that to the state that the bucket has.
    await rm(this.path(`${storePath}.wal`), { force: true });
    await this.#makeFolders(target, folders);
    const missing = [...target.values()].filter(({ path }) => !present.has(path));
    const limit = pLimit(filesAtOnce);
    const absent = new Map<string, StoredFile>();
    const failed = new AbortController();
    // The caller may remove the folder once it has the error, so every download ends first.
    const ended = await Promise.allSettled(
      missing.map((entry) =>
        limit(async () => {
          signal?.throwIfAborted();
          failed.signal.throwIfAborted();
          if (isLink(entry)) await this.#link(entry.path, entry.link);
          else if (needs(entry.path)) await this.download(entry, objects);
          else absent.set(entry.path, entry);
        }).catch((error) => {
          failed.abort(error);
          throw error;
        }),
      ),
    );
    if (ended.some(({ status }) => status === 'rejected')) throw failed.signal.reason;
    return absent;
  }

  /** Whether a file is the store as it was on this machine before: most of its blocks may still be of use. */
  async #isNear(file: LocalFile): Promise<boolean> {
    const { stored } = this.#manifest;
    return file.path === storePath && stored !== null && stored.sha256 === (await this.hashOf(file));
  }

  /** Makes the folders of all files, also of those that stay in the bucket, and removes others. */
  async #makeFolders(target: ReadonlyMap<string, Entry>, present: readonly string[]): Promise<void> {
    const wanted = new Map<string, number>();
    for (const entry of target.values()) {
      const mode = isLink(entry) || entry.path.startsWith('.cdsync/') ? 0o700 : folderMode(entry.mode);
      for (let at = dirname(entry.path); at !== '.'; at = dirname(at)) {
        wanted.set(at, (wanted.get(at) ?? 0) | (at.startsWith('.cdsync') || at === 'reports' ? 0o700 : mode));
      }
    }
    // A folder with files of this machine alone stays.
    for (const folder of present) if (!wanted.has(folder)) await rmdir(this.path(folder)).catch(() => undefined);
    for (const [folder, mode] of [...wanted].sort(([a], [b]) => (a < b ? -1 : 1)))
      await mkdir(this.path(folder), { recursive: true, mode });
    // Commands that only look lock the job, too.
    if (wanted.has('.cdsync')) await mkdir(this.path('.cdsync/locks'), { recursive: true, mode: 0o700 });
  }

  async #link(path: string, target: string): Promise<void> {
    await mkdir(dirname(this.path(path)), { recursive: true, mode: 0o700 });
    await rm(this.path(path), { force: true });
    await symlink(target, this.path(path));
  }

  /** Downloads a file to its place, with its time and permissions. */
  async download(file: StoredFile, objects: ObjectStore): Promise<void> {
    const target = this.path(file.path);
    await mkdir(dirname(target), { recursive: true, mode: 0o700 });
    const stats = file.path === storePath ? await lstat(target).catch(() => undefined) : undefined;
    const isNear = stats?.isFile() === true && (await this.#isNear({ path: file.path, stats }));
    const near =
      isNear && this.#manifest.stored !== null ? { path: target, pieces: this.#manifest.stored.pieces } : undefined;
    const temporary = await objects.download(file, target, near);
    // The middle of the millisecond is safe from rounding.
    const seconds = (file.changed_ms + (file.changed_ms % 1000 === 0 ? 0 : 0.5)) / 1000;
    await utimes(temporary, seconds, seconds);
    // The state of a bucket opens no private file of this machine to others.
    await setMode(temporary, file.mode & (/^(published|parquet)\//.test(file.path) ? 0o777 : 0o700));
    await rm(`${target}.wal`, { force: true });
    await rename(temporary, target);
    this.rememberHash({ path: file.path, stats: await lstat(target) }, file.sha256);
  }
}

const lockSchema = z.object({ host: z.string(), boot_id: z.string(), pid: z.number(), started_at: z.string() });

/** Whether another process has the lock with this content. */
async function isHeldByOther(content: string | undefined): Promise<boolean> {
  try {
    const owner = lockSchema.parse(JSON.parse(content ?? ''));
    return owner.pid !== process.pid && (await isOwnerAlive(owner));
  } catch {
    return false;
  }
}

/** Removes the lock of a process that has ended, unless another process has taken its place since. */
async function removeLock(path: string, content: string | undefined): Promise<void> {
  const aside = temporaryName(path);
  try {
    await rename(path, aside);
  } catch {
    return;
  }
  const target = await readlink(aside).catch(() => undefined);
  if (target !== undefined && target !== content) await symlink(target, path).catch(() => undefined);
  await rm(aside, { force: true });
}

function isSame(record: FileRecord, stats: Stats): boolean {
  return record.bytes === stats.size && record.changed_ms === stats.mtimeMs && record.inode === stats.ino;
}

import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import pLimit from 'p-limit';
import { callEvery } from '../core/clock.js';
import { asCdsyncError, type CdsyncError } from '../core/errors.js';
import type { BucketTraffic } from '../core/run-report.js';
import type { S3Store } from '../sdk/index.js';
import type { RemoteFile, RemoteFiles, RemovalOwed } from '../storage/layout.js';
import { blocksOf } from './blocks.js';
import { Checkpoints } from './checkpoint.js';
import { bucketError, bucketOwes, cacheInvalid, superseded } from './errors.js';
import type { JobLease, VersionedObject } from './job-lease.js';
import type { LocalCache } from './local-cache.js';
import { type ObjectStore, withRetry } from './objects.js';
import { updatePublicObjects } from './public-objects.js';
import { storePath } from './required-files.js';
import { type Entry, isLink, piecesOf, type State, type StoredFile, stateKey } from './state.js';
import { objectsIn, uploadFiles } from './upload-files.js';

/** How long an unneeded object stays: a reader may still have a manifest that names it. */
export const graceMs = 24 * 3_600_000;

const content = /^(objects\/[0-9a-f]{64}(\.z)?|parquet\/[^/]+\/files\/[0-9a-f]{64}\.parquet)$/;

/** Whether an object can go. @param now by the bucket's clock */
export function isCollectable(
  { object, writtenAt }: { readonly object: string; readonly writtenAt: number },
  {
    needed,
    now,
    graceMs: grace,
  }: { readonly needed: ReadonlySet<string>; readonly now: number; readonly graceMs: number },
): boolean {
  return content.test(object) && !needed.has(object) && now - writtenAt >= grace;
}

/** Removes the objects that no file needs, once they are old enough. Only the owner of the lease may call it. */
async function collectGarbage(
  { store, objects }: { store: S3Store; objects: ObjectStore },
  needed: ReadonlySet<string>,
  grace: number,
): Promise<void> {
  const nowMs = Date.now() + (store.clockAheadMs ?? 0);
  const removed: string[] = [];
  for (const folder of ['objects/', 'parquet/']) {
    for await (const { path, writtenAt } of store.listed(objects.key(folder))) {
      const object = path.slice(objects.key('').length);
      if (isCollectable({ object, writtenAt }, { needed, now: nowMs, graceMs: grace })) removed.push(path);
    }
  }
  // Not repeated for long: what stays, the next run removes.
  if (removed.length > 0) await store.remove(removed);
}

export interface JobBucketParts {
  readonly store: S3Store;
  readonly objects: ObjectStore;
  readonly cache: LocalCache;
  /** The job's folder in the bucket, as messages name it. */
  readonly place: string;
  readonly job: string;
  readonly notice: (line: string) => void;
  readonly found: VersionedObject<State> | undefined;
  /** Files of the job that are not on this disk. */
  readonly absent: Map<string, StoredFile>;
}

/** A job in a bucket, with some of its files on this machine. The others can be downloaded. */
export class ReadOnlyRemoteJob implements RemoteFiles {
  removalOwed: RemovalOwed | undefined;
  protected readonly parts: JobBucketParts;

  constructor(parts: JobBucketParts) {
    this.parts = parts;
    const since = parts.found?.value.removal_owed ?? null;
    this.removalOwed = since === null ? undefined : { since };
  }

  collectImmediately(): void {}

  async *alteredCopies(): AsyncGenerator<string> {
    const { found, objects } = this.parts;
    for (const [key, sha256] of Object.entries(found?.value.shown ?? {}))
      if (!(await objects.has(key, sha256))) yield key;
  }

  #relative(path: string): string {
    return relative(this.parts.cache.folder, path);
  }

  find(path: string): RemoteFile | undefined {
    const file = this.parts.absent.get(this.#relative(path));
    return file && { bytes: file.bytes, sha256: file.sha256, changedMs: file.changed_ms };
  }

  names(folder: string): readonly string[] {
    const within = this.#relative(folder);
    return [...this.parts.absent.keys()].filter((path) => dirname(path) === within).map((path) => basename(path));
  }

  async download(path: string): Promise<void> {
    const { cache, objects, absent } = this.parts;
    const file = absent.get(this.#relative(path));
    if (file === undefined) return;
    await cache.download(file, objects);
    absent.delete(file.path);
  }

  share(from: string, to: string): boolean {
    const file = this.parts.absent.get(this.#relative(from));
    if (file === undefined) return false;
    const path = this.#relative(to);
    this.parts.absent.set(path, { ...file, path });
    return true;
  }

  drop(path: string): void {
    this.parts.absent.delete(this.#relative(path));
  }
}

/** A job in a bucket whose lease this process has. Its changes are uploaded, unless another machine took the lease. */
export class RemoteJob extends ReadOnlyRemoteJob {
  readonly #lease: JobLease;
  readonly #checkpoints: Checkpoints;
  readonly #has: Set<string>;
  /** Uploads of the timer and of the run are made one at a time. */
  readonly #one = pLimit(1);
  #state: State | undefined;
  #tag: string | undefined;
  /** The checksums of the public objects, by key. */
  #shown: Record<string, string>;
  #timer: NodeJS.Timeout | undefined;
  #isReading: () => boolean = () => false;
  #collects = false;
  #isInvalid = false;
  #warned = false;

  constructor(parts: JobBucketParts, lease: JobLease) {
    super(parts);
    this.#lease = lease;
    this.#state = parts.found?.value;
    this.#tag = parts.found?.tag;
    this.#shown = Object.fromEntries(
      Object.entries(parts.found?.value.shown ?? {}).filter(([key]) => !parts.objects.lost.has(key)),
    );
    this.#has = objectsIn(this.#state?.files ?? [], lease.files);
    for (const object of parts.objects.lost) this.#has.delete(object);
    this.#checkpoints = new Checkpoints(parts.cache, parts.objects, this.#has);
    this.#renewRegularly();
  }

  /** Aborts when another machine has taken the job over. */
  get lost(): AbortSignal {
    return this.#lease.lost;
  }

  /** Transfers so far. */
  get figures(): BucketTraffic {
    const { downloaded, uploaded } = this.parts.objects;
    return {
      brought_bytes: downloaded.bytes,
      brought_files: downloaded.files,
      put_bytes: uploaded.bytes,
      put_files: uploaded.files,
    };
  }

  /** From now on, checkpoints of the run go to the bucket as long as `isReading` says so. */
  keepCheckpoints(isReading: () => boolean): void {
    this.#isReading = isReading;
  }

  /** Uploads the run's state now, before a step that must not be repeated. */
  checkpoint(): Promise<void> {
    return this.#one(async () => {
      const files = await this.#checkpoints.upload();
      if (files !== undefined) await this.#lease.renew({ files, base: this.#state?.commit ?? null });
    });
  }

  override collectImmediately(): void {
    this.#collects = true;
    this.removalOwed ??= { since: new Date().toISOString() };
  }

  /** Removes what earlier work should have removed. If that fails, {@link removalOwed} says why. */
  async payOwed(): Promise<void> {
    if (this.removalOwed !== undefined) await this.#one(() => this.#removeOwed(this.#lease.files));
  }

  /** The state has the removal as owed by then. @param kept files of the job besides those of the state */
  async #removeOwed(kept: readonly Entry[] = []): Promise<void> {
    const { store, objects, place } = this.parts;
    const { since } = this.removalOwed ?? { since: new Date().toISOString() };
    try {
      await collectGarbage({ store, objects }, objectsIn(this.#state?.files ?? [], kept), 0);
    } catch (error) {
      this.removalOwed = { since, error: bucketOwes(place, since, bucketError(error)) };
      return;
    }
    this.removalOwed = undefined;
    await this.#replaceState({}, 'note');
    await this.#remember();
  }

  /** After damage to a local file: the next command compares all files with the bucket. @returns the error, with a hint */
  invalidateCache(error: CdsyncError): CdsyncError {
    this.#isInvalid = true;
    return cacheInvalid(error);
  }

  /** An upload may take longer than `takeover_after`: during one, the timer only renews the lease. */
  #renewRegularly(): void {
    this.#timer = callEvery(this.#lease.renewalMs, () => {
      const isPutting = this.#one.activeCount > 0;
      (isPutting ? this.#lease.renew() : this.#one(() => this.#renewWithCheckpoint())).catch((error) =>
        this.#warn(error),
      );
    });
    // A process that has nothing else to do may end.
    this.#timer.unref();
  }

  async #renewWithCheckpoint(): Promise<void> {
    const files = this.#isReading() ? await this.#checkpoints.upload() : undefined;
    // During the upload, the run may have started to commit and to move its parts.
    const isWhole = files !== undefined && this.#isReading();
    await this.#lease.renew(isWhole ? { files, base: this.#state?.commit ?? null } : {});
  }

  #warn(error: unknown): void {
    if (this.#warned || this.#lease.lost.aborted) return;
    this.#warned = true;
    this.parts.notice(`warning: ${this.parts.place}: no checkpoint could be uploaded: ${asCdsyncError(error).message}`);
  }

  /**
   * Uploads all changes. On return, bucket and machine have the same files.
   * If values were erased or hidden, it then removes the objects that still have them; {@link removalOwed} says if that fails.
   * @throws {CdsyncError} `superseded` if another machine has taken the lease; `bucket_unavailable` and other errors of the bucket.
   * The bucket's state is then unchanged
   */
  upload(): Promise<void> {
    return this.#one(async () => {
      await this.#upload();
      if (!this.#collects) return;
      this.#collects = false;
      await this.#removeOwed();
    });
  }

  async #upload(change: Partial<State> = {}): Promise<void> {
    const { cache, objects, absent } = this.parts;
    if (this.#lease.lost.aborted) throw superseded(this.parts.place);
    const before = new Map((this.#state?.files ?? []).map((entry) => [entry.path, entry]));
    for (const object of objects.lost) this.#has.delete(object);
    const files = await uploadFiles({ cache, objects, before, absent, has: this.#has });
    await this.#replaceState({ ...change, files: [...files.values()] });
    this.#shown = await updatePublicObjects({ ...this.parts, files, shown: this.#shown });
    await this.#remember();
  }

  /** Replaces the state on condition, unless it would stay the same. @param kind `note`: of the same files */
  async #replaceState(change: Partial<State>, kind: 'commit' | 'fence' | 'note' = 'commit'): Promise<void> {
    const { store, objects, place, job } = this.parts;
    const before = this.#state ?? emptyState(job);
    const owed = this.removalOwed?.since ?? null;
    const changed = { ...before, shown: this.#shown, removal_owed: owed, ...change };
    if (this.#state !== undefined && kind !== 'fence' && isDeepStrictEqual(changed, before)) return;
    const next: State = {
      ...changed,
      generation: before.generation + 1,
      commit: kind === 'commit' ? randomUUID() : before.commit,
      fence: before.fence + (kind === 'fence' ? 1 : 0),
      written_at: new Date().toISOString(),
      written_by: hostname(),
    };
    const text = JSON.stringify(next);
    const tag = await withRetry(() => store.exchange(objects.key(stateKey), text, this.#tag));
    if (tag === undefined) throw superseded(place);
    objects.countUpload(Buffer.byteLength(text));
    this.#state = next;
    this.#tag = tag;
  }

  /** Makes sure that a machine that was only silent can no longer replace the state. */
  async fence(): Promise<void> {
    if (this.#lease.isTakenOver) await this.#replaceState({}, 'fence');
  }

  async #remember(): Promise<void> {
    const { cache, place } = this.parts;
    const { commit = null, generation = 0, files = [] } = this.#state ?? {};
    const stored = files.find(({ path }) => path === storePath);
    await cache.updateManifest({
      stored: stored === undefined || isLink(stored) ? null : { sha256: stored.sha256, pieces: piecesOf(stored) },
      place,
      commit,
      generation,
      owner: this.#lease.owner.id,
      absent: [...this.parts.absent.keys()],
    });
  }

  /** To be called when the files are on this machine, before anything changes them. */
  async begin(): Promise<void> {
    const { cache, absent } = this.parts;
    const { files } = await cache.files();
    const isThere = files.some(({ path }) => path === storePath);
    const stored = this.#state?.files.find(({ path }) => path === storePath);
    // Without the hashes of its blocks, the whole store would be uploaded.
    if (isThere && stored !== undefined && !isLink(stored) && cache.manifest.blocks?.sha256 !== stored.sha256) {
      const blocks = absent.has(storePath) ? undefined : await blocksOf(join(cache.folder, storePath));
      if (blocks?.sha256 === stored.sha256) cache.rememberBlocks(blocks);
    }
    await this.#remember();
  }

  /** Uploads all changes, removes unneeded objects, and releases the lease. */
  async end(): Promise<void> {
    await this.#one(async () => {
      const last = this.#state?.collected_at ?? null;
      const isDue = !(Date.now() - Date.parse(last ?? '') < graceMs);
      await this.#upload(isDue ? { collected_at: new Date().toISOString() } : {});
      // Writes the checksums of the public objects.
      await this.#replaceState({});
      await this.#remember();
      this.#stop();
      const hasErased = this.#collects;
      if (hasErased) await this.#removeOwed();
      else if (isDue) await this.#collect(last);
      await this.#lease.renew({ released: true, is_put_back: true, files: [], base: null });
      if (hasErased && this.removalOwed?.error !== undefined) throw this.removalOwed.error;
    });
  }

  /** The result of the work is in the bucket already, so it is well although old objects stay: the next run tries again. */
  async #collect(last: string | null): Promise<void> {
    const { store, objects, place, notice } = this.parts;
    try {
      await collectGarbage({ store, objects }, objectsIn(this.#state?.files ?? []), graceMs);
    } catch (error) {
      notice(`warning: ${place}: objects that no file needs could not be removed: ${asCdsyncError(error).message}`);
      await this.#replaceState({ collected_at: last }, 'note');
      await this.#remember();
    }
  }

  /** Releases the lease without an upload: the bucket stays as it is, with the last checkpoint. */
  async abandon(): Promise<void> {
    this.#stop();
    await this.#one(() => this.#lease.renew({ released: true })).catch(() => undefined);
  }

  /** To be called last. */
  async release(): Promise<void> {
    if (this.#isInvalid) await this.parts.cache.invalidate();
  }

  #stop(): void {
    clearInterval(this.#timer);
  }
}

function emptyState(job: string): State {
  return {
    version: 1,
    job,
    generation: 0,
    commit: '',
    fence: 0,
    written_at: '',
    written_by: '',
    shown: {},
    collected_at: null,
    removal_owed: null,
    files: [],
  };
}

import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { BucketOptions } from '../config/config.js';
import { sleep } from '../core/clock.js';
import { CdsyncError } from '../core/errors.js';
import { type S3Store, s3Library } from '../sdk/index.js';
import {
  bucketError,
  bucketForgot,
  busy,
  cacheInvalid,
  clockOff,
  damagedCache,
  foreignCache,
  withoutConditions,
} from './errors.js';
import { describeOwner, JobLease, readLease, type VersionedObject } from './job-lease.js';
import { LocalCache } from './local-cache.js';
import { ObjectStore, withRetry } from './objects.js';
import { publicFileAt } from './public-objects.js';
import { type JobBucketParts, ReadOnlyRemoteJob, RemoteJob } from './remote-job.js';
import { type FileSet, kindOf, neededBy, storePath, streamRunOf } from './required-files.js';
import {
  type Entry,
  filesOf,
  isLink,
  objectOf,
  objectsOf,
  readState,
  type State,
  type StoredFile,
  stateKey,
  type Work,
} from './state.js';

/*
 * A life-cycle rule, a clean-up or a person may remove objects from a bucket. A run lists the objects before it starts. It uploads
 * missing ones from this machine, or makes their files again from the store; the database has a second copy.
 */

/** The lengths of the objects that files need; undefined where only the inflated length is known. */
function lengthsOf(files: Iterable<Entry>): Map<string, number | undefined> {
  const lengths = new Map<string, number | undefined>();
  for (const entry of files) {
    if (isLink(entry)) continue;
    const { path, sha256, bytes, pieces } = entry;
    if (pieces === undefined) lengths.set(objectOf(path, sha256), bytes);
    else for (const { object, bytes } of pieces.objects) lengths.set(object, object.endsWith('.z') ? undefined : bytes);
  }
  return lengths;
}

/**
 * Lists the bucket. @returns which objects are gone or have another length: those that files need, and those that people read. Of these,
 * cdsync writes none after the state, so that a later one is of another program.
 */
async function findMissingObjects(
  { store, objects }: { store: S3Store; objects: ObjectStore },
  { files, shown }: { readonly files: ReadonlyMap<string, Entry>; readonly shown: readonly string[] },
): Promise<Set<string>> {
  const lengths = lengthsOf(files.values());
  for (const key of shown) lengths.set(key, publicFileAt(files, key)?.bytes);
  if (lengths.size === 0) return new Set();
  return withRetry(async () => {
    const lost = new Set(lengths.keys());
    const times = new Map<string, number>();
    for await (const { path, bytes, writtenAt } of store.listed(objects.key(''))) {
      const object = path.slice(objects.key('').length);
      times.set(object, writtenAt);
      if ((lengths.get(object) ?? bytes) === bytes) lost.delete(object);
    }
    const last = times.get(stateKey) ?? Number.POSITIVE_INFINITY;
    for (const key of shown) if ((times.get(key) ?? last) > last) lost.add(key);
    return lost;
  });
}

/** Files that a run makes again, from the store or from the service. */
function isRebuilt(path: string): boolean {
  return ['rows', 'published', 'known', 'page', 'parts'].includes(kindOf(path));
}

/** The files, but for those whose content is lost and that are made again: a run under way reads such a stream from its beginning. */
function withoutLost(
  target: ReadonlyMap<string, Entry>,
  lost: ReadonlySet<string>,
  isHere: (path: string) => boolean,
): Map<string, Entry> {
  const missing = [...target.values()].filter(
    (entry) => objectsOf([entry]).some((object) => lost.has(object)) && isRebuilt(entry.path) && !isHere(entry.path),
  );
  const readings = new Set(missing.flatMap(({ path }) => (kindOf(path) === 'parts' ? [streamRunOf(path)] : [])));
  const paths = new Set(missing.map(({ path }) => path));
  return new Map([...target].filter(([path]) => !paths.has(path) && !readings.has(streamRunOf(path))));
}

/** A clock that differs by more would name runs wrongly, and be refused by some stores. */
const maxClockMs = 15 * 60_000;

interface BucketTask {
  readonly bucket: BucketOptions;
  /** The folder of the cache, absolute. */
  readonly cache: string;
  readonly job: string;
  readonly need: FileSet;
  readonly notice: (line: string) => void;
  /** Stops a download. */
  readonly signal?: AbortSignal | undefined;
}

/** The job's folder in the bucket, as messages name it. */
function placeOf({ bucket, job }: Pick<BucketTask, 'bucket' | 'job'>): string {
  return `${bucket.url.replace(/(?<!\/)\/+$/, '')}/${job}`;
}

interface Opened extends Omit<JobBucketParts, 'found' | 'absent'> {
  readonly signal: AbortSignal | undefined;
}

async function open(task: BucketTask, writes: boolean): Promise<Opened> {
  const { bucket, job, notice, signal } = task;
  const place = placeOf(task);
  const { S3Store } = await s3Library();
  // A run releases its lease after a signal, too.
  const options = { ...bucket, notice, signal: new AbortController().signal };
  const store: S3Store = await withRetry(
    () => (writes ? S3Store.open(options, { warns: false }) : S3Store.openReadOnly(options)),
    signal,
  );
  try {
    if (writes && !store.keepsConditions && !bucket.singleMachine) throw withoutConditions(store.place);
    const cache = await LocalCache.open(task.cache, job, place);
    return { store, objects: new ObjectStore(store, job), cache, place, job, notice, signal };
  } catch (error) {
    store.close();
    throw bucketError(error);
  }
}

/** Names of the jobs that a bucket has. */
export async function jobsIn(bucket: BucketOptions, notice: (line: string) => void): Promise<string[]> {
  const { S3Store } = await s3Library();
  const store = await S3Store.openReadOnly({ ...bucket, notice, signal: new AbortController().signal });
  try {
    return await withRetry(async () => {
      const names: string[] = [];
      for (const name of await store.folders()) if (await store.head(`${name}/${stateKey}`)) names.push(name);
      return names;
    });
  } finally {
    store.close();
  }
}

async function readStateOf({ store, objects, place, job }: Opened): Promise<VersionedObject<State> | undefined> {
  const stored = await withRetry(() => store.read(objects.key(stateKey)));
  if (stored === undefined) return undefined;
  return { value: readState(`${place}/${stateKey}`, stored.text, job), tag: stored.tag, ageMs: stored.ageMs };
}

/** Whether the bucket has neither a state of the job nor a checkpoint of a first run. */
function isEmptyJob(state: State | undefined, work: Work | undefined): boolean {
  return state === undefined && (work === undefined || work.files.length === 0);
}

/** Rejects the cache of another place, and a bucket whose state is older than the cache. */
async function assertMatch({ cache, place }: Opened, state: State | undefined, work: Work | undefined): Promise<void> {
  const { manifest } = cache;
  if (!cache.hasManifest || manifest.place !== place) {
    const { files } = await cache.files();
    if (files.length > 0 && cache.damaged !== undefined) throw damagedCache(cache.folder, cache.damaged);
    // A folder of a job that moves into an empty bucket is welcome.
    const moves = !cache.hasManifest && isEmptyJob(state, work);
    if (files.length > 0 && !moves) throw foreignCache(cache.folder, place);
    if (cache.hasManifest) await cache.resetTo(place);
    return;
  }
  const { generation = 0, commit } = state ?? {};
  if (manifest.commit === null) return;
  if (generation < manifest.generation || (generation === manifest.generation && commit !== manifest.commit))
    throw bucketForgot(place);
}

/**
 * Whether the folder is newer than the bucket: the last owner worked here, and could not upload everything. A folder without its
 * store is not newer.
 */
async function isNewestHere({ cache }: Opened, state: State | undefined, work: Work | undefined): Promise<boolean> {
  const { manifest } = cache;
  // A folder of a job that moves into an empty bucket.
  if (!cache.hasManifest) return isEmptyJob(state, work);
  if (work === undefined || work.is_put_back || manifest.owner !== work.owner.id) return false;
  if (manifest.commit !== (state?.commit ?? null)) return false;
  const hasStore = state?.files.some(({ path }) => path === storePath) === true && !manifest.absent.includes(storePath);
  return !hasStore || (await exists(cache.path(storePath)));
}

/** Downloads the needed files; into a newer folder, only those that it never had. @returns the files that stay in the bucket */
async function download(
  opened: Opened,
  target: ReadonlyMap<string, Entry>,
  { need, isNewest }: { need: FileSet; isNewest: boolean },
): Promise<Map<string, StoredFile>> {
  const { cache, objects, signal } = opened;
  const needs = neededBy(need, new Set(target.keys()));
  if (!isNewest) {
    await cache.updateManifest({ owner: null });
    return cache.synchronize(target, { objects, needs, ...(signal === undefined ? {} : { signal }) });
  }
  const absent = new Map<string, StoredFile>();
  for (const path of cache.manifest.absent) {
    const entry = target.get(path);
    if (entry === undefined || isLink(entry) || (await exists(cache.path(path)))) continue;
    // A run removes whole folders, also with files that are only in the bucket.
    if (!(await exists(cache.path(join(path, '..'))))) continue;
    if (needs(path)) await cache.download(entry, objects);
    else absent.set(path, entry);
  }
  return absent;
}

/** Finds the missing objects. @returns the files, without those that the run makes again */
async function findLost(
  { store, objects, cache, place, notice }: Opened,
  target: ReadonlyMap<string, Entry>,
  shown: Readonly<Record<string, string>>,
): Promise<ReadonlyMap<string, Entry>> {
  const lost = await findMissingObjects({ store, objects }, { files: target, shown: Object.keys(shown) });
  if (lost.size === 0) return target;
  const [first] = lost;
  notice(
    `warning: ${place} lacks ${lost.size} objects, or has others in their place, ${first} among them; cdsync restores those that it can`,
  );
  for (const object of lost) objects.lost.add(object);
  const here = new Set((await cache.files()).files.map(({ path }) => path));
  return withoutLost(target, lost, (path) => here.has(path));
}

/** Whether an error says that a file of the storage folder cannot be read; that a file is busy may mean the same. */
function isCacheSuspect(error: unknown): error is CdsyncError {
  return error instanceof CdsyncError && ['state_unreadable', 'published_busy'].includes(error.code);
}

async function exists(path: string): Promise<boolean> {
  return (await lstat(path).catch(() => undefined)) !== undefined;
}

/** Waits until no other process of this machine downloads files: at most half a minute. */
async function lockCache(cache: LocalCache): Promise<(() => Promise<void>) | undefined> {
  for (let attempt = 0; attempt < 300; attempt += 1) {
    const release = await cache.lock();
    if (release !== undefined) return release;
    await sleep(100);
  }
  return undefined;
}

/**
 * Takes the lease of a job, downloads the needed files, uploads the changes of `work`, and releases the lease.
 * @throws {CdsyncError} `locked` if another process has the lease; `superseded` if another machine took it during the work: nothing of
 * that machine is overwritten
 */
export async function withRemoteJob<T>(task: BucketTask, work: (job: RemoteJob) => Promise<T>): Promise<T> {
  const opened = await open(task, true);
  try {
    return await workWithLease(opened, task, work);
  } finally {
    opened.store.close();
  }
}

async function workWithLease<T>(opened: Opened, task: BucketTask, work: (job: RemoteJob) => Promise<T>): Promise<T> {
  const { cache, place } = opened;
  const last = await readLease(opened);
  const { clockAheadMs: ahead = 0 } = opened.store;
  if (Math.abs(ahead) > maxClockMs) throw clockOff(place, ahead);
  const stored = await readStateOf(opened);
  opened.objects.setCopies(stored?.value.shown ?? {});
  await assertMatch(opened, stored?.value, last?.value);
  const isNewest = await isNewestHere(opened, stored?.value, last?.value);
  const lease = await JobLease.take({ ...opened, silenceMs: task.bucket.takeoverAfter }, last);
  const listed = findLost(opened, filesOf(stored?.value, last?.value), stored?.value.shown ?? {});
  const target = await listed.catch(async (error) => {
    await lease.renew({ released: true }).catch(() => undefined);
    throw error;
  });
  const absent = new Map<string, StoredFile>();
  const job = new RemoteJob({ ...opened, found: stored, absent }, lease);
  const release = await lockCache(cache);
  try {
    if (release === undefined) throw busy(place, 'another process of this machine');
    await job.fence();
    for (const entry of await download(opened, target, { need: task.need, isNewest })) absent.set(...entry);
    await job.begin();
    await job.payOwed();
    const result = await work(job).catch((error) => {
      throw isCacheSuspect(error) ? job.invalidateCache(error) : error;
    });
    await job.end();
    return result;
  } catch (error) {
    await job.abandon();
    throw job.lost.aborted ? job.lost.reason : error;
  } finally {
    // If that cannot be noted, the next run ends as this one.
    await job.release().catch(() => undefined);
    await release?.();
  }
}

/** Downloads the files for a command that only reads. It needs no lease. */
export async function readRemoteJob<T>(task: BucketTask, work: (job: ReadOnlyRemoteJob) => Promise<T>): Promise<T> {
  const opened = await open(task, false);
  try {
    const last = await readLease(opened);
    const stored = await readStateOf(opened);
    opened.objects.setCopies(stored?.value.shown ?? {});
    await assertMatch(opened, stored?.value, last?.value);
    const target = filesOf(stored?.value, last?.value);
    const { cache, notice, place } = opened;
    const release = await cache.lock();
    // A run of this machine has the files, and they are the newest.
    const isNewest = release === undefined || (await isNewestHere(opened, stored?.value, last?.value));
    if (last !== undefined && !last.value.released && release !== undefined)
      notice(`${place} is being worked on by ${describeOwner(last.value, last.ageMs)}`);
    try {
      const absent = await download(opened, target, { need: task.need, isNewest });
      const { commit = null, generation = 0 } = stored?.value ?? {};
      const owner = last?.value.owner.id ?? null;
      if (!isNewest) await cache.updateManifest({ place, commit, generation, owner: null, absent: [...absent.keys()] });
      else if (release !== undefined) await cache.updateManifest({ owner, absent: [...absent.keys()] });
      await release?.();
      return await work(new ReadOnlyRemoteJob({ ...opened, found: stored, absent }));
    } catch (error) {
      if (!isCacheSuspect(error)) throw error;
      // A run of this machine finds out alone.
      const locked = await cache.lock();
      if (locked !== undefined) await cache.invalidate().finally(locked);
      throw cacheInvalid(error);
    } finally {
      await release?.();
    }
  } finally {
    opened.store.close();
  }
}

import { randomUUID } from 'node:crypto';
import { readlink } from 'node:fs/promises';
import pLimit from 'p-limit';
import type { S3Store } from '../sdk/index.js';
import { currentProcess, isOwnerAlive } from '../storage/job-lock.js';
import { busy, superseded } from './errors.js';
import { type ObjectStore, withRetry } from './objects.js';
import { type Entry, type Owner, readWork, type Work, workKey } from './state.js';

/** `abandoned`: the owner ended, or was silent for too long, without releasing the lease. */
type LeaseStatus = 'free' | 'busy' | 'abandoned';

interface LeaseEvidence {
  /** The lease in the bucket; undefined if there is none. */
  readonly work: Work | undefined;
  /** Its age by the bucket's clock; undefined if the bucket gives no date. */
  readonly ageMs: number | undefined;
  /** After this time without a renewal, this machine takes over. */
  readonly silenceMs: number;
  /** Whether the owner is a process of this machine that has ended. */
  readonly isDead: boolean;
}

/**
 * Decides if this process may take the lease. Only the bucket's clock counts, so machines need not agree on the time. An owner
 * wrongly presumed dead loses: it can no longer replace the state that it read.
 */
export function evaluateLease({ work, ageMs, silenceMs, isDead }: LeaseEvidence): LeaseStatus {
  if (work === undefined || work.released) return 'free';
  if (isDead) return 'abandoned';
  return ageMs !== undefined && ageMs > Math.max(silenceMs, work.silence_ms) ? 'abandoned' : 'busy';
}

/** This process, as others may read it in the bucket. */
async function ownerHere(startedAt: string): Promise<Owner> {
  // The space of process ids that this process is in: containers of one machine have one each.
  const pidSpace = await readlink('/proc/self/ns/pid').catch(() => '');
  return { id: randomUUID(), pid_space: pidSpace, ...(await currentProcess(startedAt)) };
}

/** Whether an owner is a process of this machine that has ended. */
async function isDeadHere(owner: Owner, here: Owner): Promise<boolean> {
  const isHere = owner.host === here.host && owner.boot_id === here.boot_id && owner.pid_space === here.pid_space;
  return isHere && owner.boot_id !== '' && !(await isOwnerAlive(owner));
}

/** `process 4711 on worker-2, which said so 12 s ago`. */
export function describeOwner({ owner }: Work, ageMs: number | undefined): string {
  const age = ageMs === undefined ? '' : `, which said so ${Math.round(ageMs / 1000)} s ago`;
  return `process ${owner.pid} on ${owner.host} since ${owner.started_at}${age}`;
}

/** The longest time between two renewals. */
const maxRenewalMs = 60_000;

export interface VersionedObject<T> {
  readonly value: T;
  readonly tag: string;
  readonly ageMs: number | undefined;
}

interface LeaseTask {
  readonly store: S3Store;
  readonly objects: ObjectStore;
  /** The job's folder in the bucket, as messages name it. */
  readonly place: string;
  readonly silenceMs: number;
}

/** Reads the lease of a job. */
export async function readLease({
  store,
  objects,
  place,
}: Omit<LeaseTask, 'silenceMs'>): Promise<VersionedObject<Work> | undefined> {
  const stored = await withRetry(() => store.read(objects.key(workKey)));
  return stored && { value: readWork(`${place}/${workKey}`, stored.text), tag: stored.tag, ageMs: stored.ageMs };
}

/**
 * The right to work on a job, for one process at a time: the object `work.json`, replaced by conditional writes. The owner renews it
 * regularly, with the progress of its run.
 */
export class JobLease {
  readonly owner: Owner;
  /** The lease of the owner before. */
  readonly before: Work | undefined;
  /** Whether the owner before was silent, but may still be alive. */
  readonly isTakenOver: boolean;
  readonly #task: LeaseTask;
  readonly #lost = new AbortController();
  /** Each renewal replaces the one before, so they run one at a time. */
  readonly #one = pLimit(1);
  #work: Work;
  #tag: string | undefined;

  private constructor(
    task: LeaseTask,
    parts: { work: Work; before: VersionedObject<Work> | undefined; isTakenOver: boolean },
  ) {
    this.#task = task;
    this.#work = parts.work;
    this.owner = parts.work.owner;
    this.before = parts.before?.value;
    this.#tag = parts.before?.tag;
    this.isTakenOver = parts.isTakenOver;
  }

  /**
   * Takes the lease if it is free or abandoned.
   * @param stored the result of {@link readLease}: a process that has changed the lease since then keeps it
   * @throws {CdsyncError} `locked`
   */
  static async take(task: LeaseTask, stored: VersionedObject<Work> | undefined): Promise<JobLease> {
    const owner = await ownerHere(new Date().toISOString());
    const work = stored?.value;
    const isDead = work !== undefined && (await isDeadHere(work.owner, owner));
    const lease = evaluateLease({ work, ageMs: stored?.ageMs, silenceMs: task.silenceMs, isDead });
    if (lease === 'busy') throw busy(task.place, describeOwner(work as Work, stored?.ageMs));
    const next: Work = {
      version: 1,
      owner,
      released: false,
      is_put_back: false,
      silence_ms: task.silenceMs,
      said: 0,
      base: work?.base ?? null,
      files: work?.files ?? [],
    };
    const taken = new JobLease(task, { work: next, before: stored, isTakenOver: lease === 'abandoned' && !isDead });
    if (await taken.#write(next)) return taken;
    const current = await readLease(task);
    throw busy(task.place, current === undefined ? 'another machine' : describeOwner(current.value, current.ageMs));
  }

  /** Aborts when another process has taken the lease. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** The time between two renewals, in milliseconds. */
  get renewalMs(): number {
    return Math.min(maxRenewalMs, this.#task.silenceMs / 3);
  }

  /** The files of an unfinished run, as of the last renewal. */
  get files(): readonly Entry[] {
    return this.#work.files;
  }

  /**
   * Renews the lease, with the progress of the run.
   * @throws {CdsyncError} `superseded`, `bucket_unavailable`
   */
  async renew(progress: Partial<Pick<Work, 'base' | 'files' | 'released' | 'is_put_back'>> = {}): Promise<void> {
    return this.#one(async () => {
      if (this.#lost.signal.aborted) throw superseded(this.#task.place);
      const next = { ...this.#work, ...progress, said: this.#work.said + 1 };
      if (await this.#write(next)) return;
      this.#lost.abort(superseded(this.#task.place));
      throw superseded(this.#task.place);
    });
  }

  async #write(next: Work): Promise<boolean> {
    const { store, objects } = this.#task;
    const text = JSON.stringify(next);
    const key = objects.key(workKey);
    const tag = await withRetry(() => store.exchange(key, text, this.#tag));
    if (tag === undefined) return false;
    objects.countUpload(Buffer.byteLength(text));
    this.#work = next;
    this.#tag = tag;
    return true;
  }
}

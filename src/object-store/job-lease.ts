import { randomUUID } from 'node:crypto';
import { readlink } from 'node:fs/promises';
import pLimit from 'p-limit';
import type { S3Store } from '../sdk/index.js';
import { currentProcess, isOwnerAlive } from '../storage/job-lock.js';
import { busy, superseded } from './errors.js';
import { type ObjectStore, withRetry } from './objects.js';
import { type Entry, type Owner, readWork, type Work, workKey } from './state.js';

/** Whether a job may be worked on here: nobody works on it; somebody does; or somebody did, and is gone. */
type LeaseStatus = 'free' | 'busy' | 'abandoned';

interface LeaseEvidence {
  /** What the bucket says of the work. */
  readonly work: Work | undefined;
  /** How long ago that was written, by the bucket's clock; undefined if it does not say. */
  readonly ageMs: number | undefined;
  /** After how long a silence this machine takes over. */
  readonly silenceMs: number;
  /** Whether the owner is a process of this machine that has ended. */
  readonly isDead: boolean;
}

/**
 * Decides whether a job may be worked on. Only times of the bucket's clock count, so it does not matter whether machines agree on the
 * time. Who is taken for dead and is not, loses: the state that it wants to replace is no longer the one that it read.
 */
export function evaluateLease({ work, ageMs, silenceMs, isDead }: LeaseEvidence): LeaseStatus {
  if (work === undefined || work.released) return 'free';
  if (isDead) return 'abandoned';
  return ageMs !== undefined && ageMs > Math.max(silenceMs, work.silence_ms) ? 'abandoned' : 'busy';
}

/** The space of process ids that this process is in: containers of one machine have one each. */
function pidSpace(): Promise<string> {
  return readlink('/proc/self/ns/pid').catch(() => '');
}

/** This process, as others may read it in the bucket. */
async function ownerHere(startedAt: string): Promise<Owner> {
  return { id: randomUUID(), pid_space: await pidSpace(), ...(await currentProcess(startedAt)) };
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

/** Most time between two words of the owner. */
const longestRenewalMs = 60_000;

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

/** Reads who works on a job. */
export async function readLease({
  store,
  objects,
  place,
}: Omit<LeaseTask, 'silenceMs'>): Promise<VersionedObject<Work> | undefined> {
  const found = await withRetry(() => store.read(objects.key(workKey)));
  return found && { value: readWork(`${place}/${workKey}`, found.text), tag: found.tag, ageMs: found.ageMs };
}

/**
 * The right to work on a job, which one process in the world has: the object `work.json`, replaced on condition. The owner says now
 * and then that it is there, and how far its run is.
 */
export class JobLease {
  readonly owner: Owner;
  /** Who had it before, and how far that one was. */
  readonly before: Work | undefined;
  /** Whether it was taken from somebody who has been silent, but may not be dead. */
  readonly isTakenOver: boolean;
  readonly #task: LeaseTask;
  readonly #gone = new AbortController();
  /** Each word is said on condition that the one before is there. */
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
   * Takes the right, if it is free or its owner is gone.
   * @param found what {@link readLease} gave: whoever has changed it since, keeps it
   * @throws {CdsyncError} `locked`
   */
  static async take(task: LeaseTask, found: VersionedObject<Work> | undefined): Promise<JobLease> {
    const owner = await ownerHere(new Date().toISOString());
    const work = found?.value;
    const isDead = work !== undefined && (await isDeadHere(work.owner, owner));
    const lease = evaluateLease({ work, ageMs: found?.ageMs, silenceMs: task.silenceMs, isDead });
    if (lease === 'busy') throw busy(task.place, describeOwner(work as Work, found?.ageMs));
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
    const taken = new JobLease(task, { work: next, before: found, isTakenOver: lease === 'abandoned' && !isDead });
    if (await taken.#write(next)) return taken;
    const now = await readLease(task);
    throw busy(task.place, now === undefined ? 'another machine' : describeOwner(now.value, now.ageMs));
  }

  /** Aborts when somebody else has taken the right. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** The time between two words, in milliseconds. */
  get renewalMs(): number {
    return Math.min(longestRenewalMs, this.#task.silenceMs / 3);
  }

  /** The files that a run under way has read, as the last word has them. */
  get files(): readonly Entry[] {
    return this.#work.files;
  }

  /**
   * Says that this process is there; with `progress`, how far its run is.
   * @throws {CdsyncError} `superseded`, `bucket_unavailable`
   */
  async renew(progress: Partial<Pick<Work, 'base' | 'files' | 'released' | 'is_put_back'>> = {}): Promise<void> {
    return this.#one(async () => {
      if (this.#gone.signal.aborted) throw superseded(this.#task.place);
      const next = { ...this.#work, ...progress, said: this.#work.said + 1 };
      if (await this.#write(next)) return;
      this.#gone.abort(superseded(this.#task.place));
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

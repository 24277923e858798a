import type { S3Store } from '../sdk/index.js';
import type { Contents } from './contents.js';
import { patiently } from './contents.js';
import { busy, superseded } from './errors.js';
import { hasEndedHere, judgeClaim, ownerHere, whoIs } from './lease.js';
import { type Entry, type Owner, readWork, type Work, workKey } from './state.js';

/** Most time between two words of the owner. */
const longestPauseMs = 60_000;

export interface Found<T> {
  readonly value: T;
  readonly tag: string;
  readonly ageMs: number | undefined;
}

export interface ClaimTask {
  readonly store: S3Store;
  readonly contents: Contents;
  /** The job's folder in the bucket, as messages name it. */
  readonly place: string;
  readonly silenceMs: number;
}

/** Reads who works on a job. */
export async function readClaim({
  store,
  contents,
  place,
}: Omit<ClaimTask, 'silenceMs'>): Promise<Found<Work> | undefined> {
  const found = await patiently(() => store.read(contents.key(workKey)));
  return found && { value: readWork(`${place}/${workKey}`, found.text), tag: found.tag, ageMs: found.ageMs };
}

/**
 * The right to work on a job, which one process in the world has: the object `work.json`, replaced on condition. The owner says now
 * and then that it is there, and how far its run is.
 */
export class Claim {
  readonly owner: Owner;
  /** Who had it before, and how far that one was. */
  readonly before: Work | undefined;
  /** Whether it was taken from somebody who has been silent, but may not be dead. */
  readonly isTakenOver: boolean;
  readonly #task: ClaimTask;
  readonly #gone = new AbortController();
  #work: Work;
  #tag: string | undefined;

  private constructor(task: ClaimTask, parts: { work: Work; before: Found<Work> | undefined; isTakenOver: boolean }) {
    this.#task = task;
    this.#work = parts.work;
    this.owner = parts.work.owner;
    this.before = parts.before?.value;
    this.#tag = parts.before?.tag;
    this.isTakenOver = parts.isTakenOver;
  }

  /**
   * Takes the right, if it is free or its owner is gone.
   * @param found what {@link readClaim} gave: whoever has changed it since, keeps it
   * @throws {CdsyncError} `locked`
   */
  static async take(task: ClaimTask, found: Found<Work> | undefined): Promise<Claim> {
    const owner = await ownerHere(new Date().toISOString());
    const work = found?.value;
    const isDead = work !== undefined && (await hasEndedHere(work.owner, owner));
    const claim = judgeClaim({ work, ageMs: found?.ageMs, silenceMs: task.silenceMs, isDead });
    if (claim === 'busy') throw busy(task.place, whoIs(work as Work, found?.ageMs));
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
    const taken = new Claim(task, { work: next, before: found, isTakenOver: claim === 'abandoned' && !isDead });
    if (await taken.#write(next)) return taken;
    const now = await readClaim(task);
    throw busy(task.place, now === undefined ? 'another machine' : whoIs(now.value, now.ageMs));
  }

  /** Aborts when somebody else has taken the right. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** The time between two words, in milliseconds. */
  get pauseMs(): number {
    return Math.min(longestPauseMs, this.#task.silenceMs / 3);
  }

  /** The files that a run under way has read, as the last word has them. */
  get files(): readonly Entry[] {
    return this.#work.files;
  }

  /**
   * Says that this process is there; with `progress`, how far its run is.
   * @throws {CdsyncError} `superseded`, `bucket_unavailable`
   */
  async say(progress: Partial<Pick<Work, 'base' | 'files' | 'released' | 'is_put_back'>> = {}): Promise<void> {
    if (this.#gone.signal.aborted) throw superseded(this.#task.place);
    const next = { ...this.#work, ...progress, said: this.#work.said + 1 };
    if (await this.#write(next)) return;
    this.#gone.abort(superseded(this.#task.place));
    throw superseded(this.#task.place);
  }

  async #write(next: Work): Promise<boolean> {
    const { store, contents } = this.#task;
    const text = JSON.stringify(next);
    const key = contents.key(workKey);
    const tag = await patiently(() => store.exchange(key, text, this.#tag));
    if (tag === undefined) return false;
    contents.countPut(Buffer.byteLength(text));
    this.#work = next;
    this.#tag = tag;
    return true;
  }
}

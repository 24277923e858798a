import { randomUUID } from 'node:crypto';
import { readlink } from 'node:fs/promises';
import { ownerLives, thisProcess } from '../store/job-lock.js';
import type { Owner, Work } from './state.js';

/** Whether a job may be worked on here: nobody works on it; somebody does; or somebody did, and is gone. */
export type Claim = 'free' | 'busy' | 'abandoned';

export interface Judged {
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
export function judgeClaim({ work, ageMs, silenceMs, isDead }: Judged): Claim {
  if (work === undefined || work.released) return 'free';
  if (isDead) return 'abandoned';
  return ageMs !== undefined && ageMs > Math.max(silenceMs, work.silence_ms) ? 'abandoned' : 'busy';
}

/** The space of process ids that this process is in: containers of one machine have one each. */
function pidSpace(): Promise<string> {
  return readlink('/proc/self/ns/pid').catch(() => '');
}

/** This process, as others may read it in the bucket. */
export async function ownerHere(startedAt: string): Promise<Owner> {
  return { id: randomUUID(), pid_space: await pidSpace(), ...(await thisProcess(startedAt)) };
}

/** Whether an owner is a process of this machine that has ended. */
export async function hasEndedHere(owner: Owner, here: Owner): Promise<boolean> {
  const isHere = owner.host === here.host && owner.boot_id === here.boot_id && owner.pid_space === here.pid_space;
  return isHere && owner.boot_id !== '' && !(await ownerLives(owner));
}

/** `process 4711 on worker-2, which said so 12 s ago`. */
export function whoIs({ owner }: Work, ageMs: number | undefined): string {
  const age = ageMs === undefined ? '' : `, which said so ${Math.round(ageMs / 1000)} s ago`;
  return `process ${owner.pid} on ${owner.host} since ${owner.started_at}${age}`;
}

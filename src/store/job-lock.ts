import { readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { z } from 'zod';
import { CdsyncError } from '../core/errors.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { type Database, type Session, tellsOfDamage } from './duckdb.js';
import { temporaryName } from './durable.js';
import type { JobLayout } from './layout.js';
import { readStateIfUsable, writeStateFile } from './state-file.js';
import { sweepDelivery, sweepStorage } from './storage.js';

const ownerSchema = z.object({
  host: z.string(),
  boot_id: z.string(),
  pid: z.number(),
  started_at: z.string(),
  run_id: z.string().optional(),
});

export type LockOwner = z.infer<typeof ownerSchema>;

/** Who says to hold the job's lock; only a lock that is really held makes it true. */
export function lockOwner(layout: JobLayout): Promise<LockOwner | undefined> {
  return readStateIfUsable(layout.lockOwner, ownerSchema);
}

async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim();
}

/** Whether the process that the owner file names still lives on this machine. */
export async function ownerLives(owner: LockOwner): Promise<boolean> {
  if (owner.host !== hostname() || owner.boot_id !== (await bootId())) return false;
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  // Its number may have gone to another process since: in containers they are small, and come again soon.
  const began = await processStart(owner.pid);
  return began === undefined || began <= Date.parse(owner.started_at) + startToleranceMs;
}

/** Times that Linux tells of processes are given in these parts of a second, counted from a start that it rounds to seconds. */
const ticksPerSecond = 100;
const startToleranceMs = 2_000;

/** When a process began, in milliseconds since 1970; undefined where the system does not tell. */
async function processStart(pid: number): Promise<number | undefined> {
  const read = (path: string) => readFile(path, 'utf8').catch(() => '');
  const [about, system] = await Promise.all([read(`/proc/${pid}/stat`), read('/proc/stat')]);
  // The second field is the name of the program, in brackets, with whatever it has in it.
  const ticks = Number(about.slice(about.lastIndexOf(')') + 2).split(' ')[19]);
  const booted = Number(/^btime (\d+)$/m.exec(system)?.[1]);
  const began = (booted + ticks / ticksPerSecond) * 1000;
  return Number.isNaN(began) ? undefined : began;
}

/** Files that this process has locked. The system's lock is the process's: it keeps only other processes out. */
const held = new Set<string>();

/** What is locked: a small database file, who says to have it, and what it is called. */
interface LockPlace {
  readonly file: string;
  readonly owner: string;
  /** Of the attached database; unique in the process. */
  readonly name: string;
  /** For messages: `job "nightly" is being run`. */
  readonly what: string;
  /** The first thing that the owner of the lock does. */
  readonly sweep?: () => Promise<void>;
}

/**
 * The right to work on a job, or on one of its destinations. It is the lock that DuckDB takes on a small database file, which
 * the operating system gives back when the process ends, however it ends; nothing else may open that file in this process,
 * for closing it anywhere would drop the lock.
 */
export class JobLock {
  readonly #database: Database;
  readonly #place: LockPlace;
  /** The entry in `held`. */
  readonly #held: string;

  private constructor(database: Database, place: LockPlace, entry: string) {
    this.#database = database;
    this.#place = place;
    this.#held = entry;
  }

  /** @throws {CdsyncError} `locked` where another process, or other work in this one, holds it. */
  static acquire(database: Database, layout: JobLayout, startedAt: string): Promise<JobLock> {
    const { lock: file, lockOwner: owner, job } = layout;
    const place = {
      file,
      owner,
      name: `lock_${job}`,
      what: `job "${job}" is being run`,
      sweep: () => sweepStorage(layout),
    };
    return JobLock.#acquire(database, place, startedAt);
  }

  /** The right to deliver to a destination. @throws {CdsyncError} `locked` where another delivery holds it. */
  static acquireDestination(
    database: Database,
    layout: JobLayout,
    destination: string,
    startedAt: string,
  ): Promise<JobLock> {
    const { file, owner } = layout.destinationLock(destination);
    const name = `lock_${layout.job}__${destination}`;
    const what = `destination "${destination}" is being loaded`;
    const sweep = () => sweepDelivery(layout, destination);
    return JobLock.#acquire(database, { file, owner, name, what, sweep }, startedAt);
  }

  static async #acquire(database: Database, place: LockPlace, startedAt: string): Promise<JobLock> {
    const folder = dirname(place.file);
    // A folder that cannot be looked at is told of by what opens the file.
    const entry = join(await realpath(folder).catch(() => folder), basename(place.file));
    if (held.has(entry)) throw await lockedError(place);
    held.add(entry);
    try {
      const session = await database.connect();
      await attachLock(session, place).finally(() => session.close());
    } catch (error) {
      held.delete(entry);
      throw error;
    }
    const lock = new JobLock(database, place, entry);
    try {
      await place.sweep?.();
      await lock.describe({ started_at: startedAt });
      return lock;
    } catch (error) {
      await lock.release().catch(() => undefined);
      throw error;
    }
  }

  /** Says which run holds the lock, to all who find it taken. */
  async describe(run: { started_at: string; run_id?: string }): Promise<void> {
    const owner: LockOwner = { host: hostname(), boot_id: await bootId(), pid: process.pid, ...run };
    await writeStateFile(this.#place.owner, owner);
  }

  async release(): Promise<void> {
    try {
      await rm(this.#place.owner, { force: true });
      const session = await this.#database.connect();
      await session.run(`DETACH ${quoteIdentifier(this.#place.name)}`).finally(() => session.close());
    } finally {
      held.delete(this.#held);
    }
  }
}

function isHeld(error: unknown): boolean {
  const { message } = ((error as Error).cause ?? error) as Error;
  return /could not set lock|conflicting lock/i.test(message);
}

async function attachLock(session: Session, place: LockPlace): Promise<void> {
  const attach = () => session.run(`ATTACH ${sqlText(place.file)} AS ${quoteIdentifier(place.name)}`);
  try {
    await attach();
  } catch (error) {
    if (isHeld(error)) throw await lockedError(place, error);
    if (!tellsOfDamage(error)) throw error;
    // DuckDB locks a file before it reads it: nobody holds this one, and nothing in it is of any worth. It is written anew in
    // its place and not replaced, so that all who come at the same moment lock the same file.
    await writeFile(place.file, await emptyDatabase(session, place));
    await attach().catch(async (again: Error) => {
      throw isHeld(again) ? await lockedError(place, again) : again;
    });
  }
}

/** The bytes of a database without anything in it, which DuckDB does not take an empty file for. */
async function emptyDatabase(session: Session, place: LockPlace): Promise<Buffer> {
  const path = temporaryName(place.file);
  const name = quoteIdentifier(`${place.name}__fresh`);
  try {
    await session.run(`ATTACH ${sqlText(path)} AS ${name}`);
    await session.run(`DETACH ${name}`);
    return await readFile(path);
  } finally {
    await rm(path, { force: true });
  }
}

async function lockedError({ owner: path, what }: LockPlace, cause?: unknown): Promise<CdsyncError> {
  const owner = await readStateIfUsable(path, ownerSchema);
  const who =
    owner === undefined
      ? 'another process'
      : `run ${owner.run_id ?? '(starting)'}, process ${owner.pid} on ${owner.host}, since ${owner.started_at}`;
  return new CdsyncError(`${what} by ${who}`, {
    code: 'locked',
    kind: 'locked',
    hint: 'wait until it ends, or stop it; its lock goes with its process',
    cause,
  });
}

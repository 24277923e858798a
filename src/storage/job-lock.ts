import { readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { Clock } from '../core/clock.js';
import { closeToOthers, openFlags, readStateIfUsable, temporaryName, writeStateFile } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { quoteIdentifier, sqlText } from '../core/sql.js';
import { z } from '../core/zod.js';
import { isCorruption } from '../sdk/duckdb/errors.js';
import type { Database, Session } from './duckdb.js';
import type { JobLayout } from './layout.js';
import { lacksLocks, unsuitableError } from './probe-storage.js';
import { sweepDelivery, sweepStorage } from './storage.js';

const ownerSchema = z.object({
  host: z.string(),
  boot_id: z.string(),
  pid: z.number(),
  started_at: z.string(),
  run_id: z.string().optional(),
});

export type LockOwner = z.infer<typeof ownerSchema>;

/** The process that the owner file names. It may be gone: only the lock itself proves that the job is running. */
export function lockOwner(layout: JobLayout): Promise<LockOwner | undefined> {
  return readStateIfUsable(layout.lockOwner, ownerSchema);
}

async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim();
}

/** This process, as an owner file names it. */
export async function currentProcess(startedAt: string): Promise<Omit<LockOwner, 'run_id'>> {
  return { host: hostname(), boot_id: await bootId(), pid: process.pid, started_at: startedAt };
}

/** Whether the process that the owner file names is still running on this machine. */
export async function isOwnerAlive(owner: LockOwner): Promise<boolean> {
  if (owner.host !== hostname() || owner.boot_id !== (await bootId())) return false;
  try {
    process.kill(owner.pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false;
  }
  // Another process may have got its id since: in containers ids are small, and soon reused.
  const began = await processStart(owner.pid);
  return began === undefined || began <= Date.parse(owner.started_at) + startToleranceMs;
}

/** Linux gives a process's start in these ticks since boot, and rounds the boot time to seconds. */
const ticksPerSecond = 100;
const startToleranceMs = 2_000;

/** When a process began, in milliseconds since 1970; undefined if the system does not say. */
async function processStart(pid: number): Promise<number | undefined> {
  const read = (path: string) => readFile(path, 'utf8').catch(() => '');
  const [about, system] = await Promise.all([read(`/proc/${pid}/stat`), read('/proc/stat')]);
  // The second field is the program's name in brackets, which may itself hold spaces and brackets.
  const ticks = Number(about.slice(about.lastIndexOf(')') + 2).split(' ')[19]);
  const booted = Number(/^btime (\d+)$/m.exec(system)?.[1]);
  const began = (booted + ticks / ticksPerSecond) * 1000;
  return Number.isNaN(began) ? undefined : began;
}

/** Files that this process has locked. The system's lock keeps out only other processes, not other work in this one. */
const held = new Set<string>();

/** A lock: a small database file, the file that names the owner, and names for messages. */
interface LockPlace {
  readonly file: string;
  readonly owner: string;
  /** The name of the attached database; unique in the process. */
  readonly name: string;
  /** For messages: `job "nightly" is being run`. */
  readonly what: string;
  /** Runs first, once the lock is taken. */
  readonly sweep: () => Promise<void>;
  /** For data that does not fit in memory. After a crash, `sweep` removes it. */
  readonly spill: string;
}

/**
 * The right to work on a job, or on one of its destinations: the lock that DuckDB takes on a small database file. The
 * operating system releases it when the process ends, however it ends. Nothing else in this process may open that file:
 * closing it anywhere would drop the lock.
 */
export class JobLock {
  readonly #database: Database;
  readonly #place: LockPlace;
  /** The entry in `held`. */
  readonly #held: string;
  /** Of this process's work: a run that it resumes may have begun before the process. */
  readonly #startedAt: string;

  private constructor(database: Database, place: LockPlace, entry: string, startedAt: string) {
    this.#database = database;
    this.#place = place;
    this.#held = entry;
    this.#startedAt = startedAt;
  }

  /** Locks a job. @throws {CdsyncError} `locked` if another process, or other work in this one, holds the lock. */
  static acquire(database: Database, layout: JobLayout, startedAt: string): Promise<JobLock> {
    const { lock: file, lockOwner: owner, job } = layout;
    const place = {
      file,
      owner,
      name: `lock_${job}`,
      what: `job "${job}" is being run`,
      sweep: () => sweepStorage(layout),
      spill: temporaryName(join(layout.private, 'spill')),
    };
    return JobLock.#acquire(database, place, startedAt);
  }

  /** Locks a destination. @throws {CdsyncError} `locked` if another delivery holds the lock. */
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
    const spill = temporaryName(join(layout.delivery(destination), 'spill'));
    return JobLock.#acquire(database, { file, owner, name, what, sweep, spill }, startedAt);
  }

  static async #acquire(database: Database, place: LockPlace, startedAt: string): Promise<JobLock> {
    const folder = dirname(place.file);
    // If the folder cannot be read, opening the file reports it.
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
    const lock = new JobLock(database, place, entry, startedAt);
    try {
      await closeToOthers(place.file);
      await place.sweep();
      await database.spillTo(place.spill);
      await lock.describe();
      return lock;
    } catch (error) {
      await lock.release().catch(() => undefined);
      throw error;
    }
  }

  /** Writes into the owner file which run holds the lock. */
  async describe(run: { run_id?: string } = {}): Promise<void> {
    const owner: LockOwner = { ...(await currentProcess(this.#startedAt)), ...run };
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
    if (lacksLocks(error)) throw unsuitableError(dirname(place.file), ['locks'], error);
    if (isHeld(error)) throw await lockedError(place, error);
    if (!isCorruption(error)) throw error;
    // DuckDB locks a file before it reads it, so no process holds this one, and its content is worthless. Rewrite the file rather
    // than replace it, so that a process that starts at the same moment locks the same file.
    await writeFile(place.file, await emptyDatabase(session, place), { flag: openFlags.replace });
    await attach().catch(async (again: Error) => {
      throw isHeld(again) ? await lockedError(place, again) : again;
    });
  }
}

/** The bytes of a database without tables; DuckDB does not accept an empty file as one. */
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
    hint: 'wait until it ends, or stop it; the lock is released when its process ends',
    cause,
  });
}

/**
 * Works while no other process may change the job.
 * @throws {CdsyncError} as {@link JobLock.acquire}
 */
export async function withJobLock<T>(
  { database, clock }: { readonly database: Database; readonly clock: Pick<Clock, 'now'> },
  layout: JobLayout,
  work: (lock: JobLock) => Promise<T>,
): Promise<T> {
  const lock = await JobLock.acquire(database, layout, new Date(clock.now()).toISOString());
  try {
    return await work(lock);
  } finally {
    await lock.release();
  }
}

import { constants } from 'node:fs';
import { mkdir, open, readlink, rename, rm, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { statOrUndefined, syncFile, syncFolder, temporaryName } from '../core/durable.js';
import { CdsyncError } from '../core/errors.js';
import { attachForWriting, type Database } from './duckdb.js';

/** The abilities that a storage folder's file system needs. Hard links are not among them: cdsync copies instead. */
const abilities = {
  locks: 'file locks',
  links: 'symbolic links',
  modes: 'permissions of files (chmod)',
  syncs: 'syncing files and folders (fsync)',
} as const;
type Ability = keyof typeof abilities;

export function unsuitableError(folder: string, missing: readonly Ability[], cause: unknown): CdsyncError {
  const names = missing.map((ability) => abilities[ability]).join(', ');
  return new CdsyncError(`the file system of ${folder} lacks ${names}`, {
    code: 'storage_unsuitable',
    hint: 'point `storage` at a folder on a local disk, or on a network file system that has them, such as NFS 4; a bucket works too (`storage.url`)',
    cause,
  });
}

/** Codes of the operating system for an ability that a file system lacks. EACCES and ENOSPC have other causes. */
const lacking = new Set(['EPERM', 'EINVAL', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'ENOLCK']);

async function nearestFolder(folder: string): Promise<string> {
  return (await statOrUndefined(folder)) !== undefined || dirname(folder) === folder
    ? folder
    : nearestFolder(dirname(folder));
}

async function setAnyMode(path: string): Promise<void> {
  const handle = await open(path, constants.O_RDONLY);
  try {
    for (const mode of [0o400, 0o600]) await handle.chmod(mode);
  } finally {
    await handle.close();
  }
}

async function swapAnyLink(folder: string): Promise<void> {
  const [next, link] = [join(folder, 'next'), join(folder, 'link')];
  await symlink('file', next);
  await rename(next, link);
  await readlink(link);
}

/**
 * Tests the file system in a temporary folder before a run: otherwise the run would fail after it has read everything.
 * @param database tries the lock too; left out where a lock is taken in any case
 * @throws {CdsyncError} `storage_unsuitable`, which names all that is missing
 */
export async function probeStorage(folder: string, database?: Database): Promise<void> {
  const place = await nearestFolder(folder);
  const trial = temporaryName(join(place, 'probe'));
  try {
    await mkdir(trial, { mode: 0o700 });
  } catch {
    // If this user may not write to the folder, another check reports it.
    return;
  }
  const missing: Ability[] = [];
  let cause: unknown;
  const attempt = async (ability: Ability, work: () => Promise<void>) => {
    await work().catch((error: NodeJS.ErrnoException) => {
      if (!lacking.has(error.code ?? '') && error.code !== 'storage_unsuitable') return;
      if (!missing.includes(ability)) missing.push(ability);
      cause ??= error;
    });
  };
  try {
    const file = join(trial, 'file');
    const made = await open(file, 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
      // Another run, which has the lock, has swept the folder: it tries the same.
      if (error.code !== 'ENOENT') throw error;
    });
    if (made === undefined) return;
    await made.close();
    if (database !== undefined) await attempt('locks', () => takeLock(database, join(trial, 'lock.duckdb')));
    await attempt('links', () => swapAnyLink(trial));
    await attempt('modes', () => setAnyMode(file));
    await attempt('syncs', () => syncFile(file));
    await attempt('syncs', () => syncFolder(trial));
  } finally {
    await rm(trial, { recursive: true, force: true });
  }
  if (missing.length > 0) throw unsuitableError(folder, missing, cause);
}

async function takeLock(database: Database, path: string): Promise<void> {
  const session = await database.connect();
  try {
    await session.run(attachForWriting(path, 'probed_lock'));
    await session.run('DETACH probed_lock');
  } catch (error) {
    throw lacksLocks(error) ? unsuitableError(dirname(path), ['locks'], error) : error;
  } finally {
    session.close();
  }
}

/** Whether DuckDB could not lock a file although no other process has the lock. */
export function lacksLocks(error: unknown): boolean {
  const { message } = ((error as Error).cause ?? error) as Error;
  return /could not set lock/i.test(message) && !/conflicting lock is held/i.test(message);
}

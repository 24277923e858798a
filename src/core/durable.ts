import { createHash, randomBytes } from 'node:crypto';
import { constants, createReadStream, type Stats } from 'node:fs';
import { chmod, copyFile, type FileHandle, link, open, readFile, rename, rm, stat, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { ErrorCode } from './error-codes.js';
import { CdsyncError } from './errors.js';
import { parseSealed, sealedJson } from './sealed-json.js';
import type { z } from './zod.js';

/** A kind of small JSON file that cdsync keeps for itself, with a checksum, and the error for one that cannot be read. */
export interface StateFile<T> {
  readonly schema: z.ZodType<T>;
  /** Its name in messages. Default: `state file`. */
  readonly what?: string;
  /** Default: `state_unreadable`. */
  readonly code?: ErrorCode;
  readonly hint: string;
}

/**
 * Reads a file that {@link writeStateFile} has written.
 * @returns undefined if there is no such file
 * @throws {CdsyncError} with the code of its kind if the content does not fit
 */
export async function readStateFile<T>(
  path: string,
  { schema, what = 'state file', code = 'state_unreadable', hint }: StateFile<T>,
): Promise<T | undefined> {
  let text: string;
  try {
    text = await readFile(path, readFlags);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  try {
    return schema.parse(parseSealed(text.trimEnd())?.content);
  } catch (cause) {
    throw new CdsyncError(`${path} is not a ${what} of cdsync`, { code, hint, cause });
  }
}

/** The same for a file that cdsync can do without: undefined also if it cannot be read. */
export async function readStateIfUsable<T>(path: string, schema: z.ZodType<T>): Promise<T | undefined> {
  try {
    return schema.parse(parseSealed((await readFile(path, readFlags)).trimEnd())?.content);
  } catch {
    return undefined;
  }
}

/** Replaces a state file: a reader sees the old content or the new. Its folder must exist. */
export async function writeStateFile(path: string, content: object): Promise<void> {
  await writeFileAtomically(path, `${sealedJson(content)}\n`);
}

/** Opening fails if the last part of the path is a link. */
const noFollow = constants.O_NOFOLLOW ?? 0;

/** How cdsync reads its own text files: a link in the place of one is an error; a pipe is empty, and is not waited for. */
export const readFlags = {
  encoding: 'utf8',
  flag: constants.O_RDONLY | noFollow | (constants.O_NONBLOCK ?? 0),
} as const;

/** How cdsync opens its own files to write to them: never through a link. */
export const openFlags = {
  append: constants.O_WRONLY | constants.O_CREAT | constants.O_APPEND | noFollow,
  replace: constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | noFollow,
  update: constants.O_RDWR | constants.O_CREAT | noFollow,
} as const;

/** Sets the permissions of a file, but not through a link. */
export async function setMode(path: string, mode: number): Promise<void> {
  await withHandle(path, constants.O_RDONLY | noFollow, (handle) => handle.chmod(mode));
}

/**
 * Takes the permissions that the umask has left to others from a file of this user. It does not open the file: to close it would drop
 * a lock that DuckDB has on it.
 */
export async function closeToOthers(path: string): Promise<void> {
  const { mode, uid } = await stat(path);
  if ((mode & 0o077) !== 0 && uid === process.getuid?.()) await chmod(path, mode & 0o700);
}

async function withHandle<T>(
  path: string,
  flags: number | string,
  work: (handle: FileHandle) => Promise<T>,
): Promise<T> {
  const handle = await open(path, flags);
  try {
    return await work(handle);
  } finally {
    await handle.close();
  }
}

/** Writes the first `length` bytes. On an almost full disk, a write may take only a part of them without an error. */
export async function writeWhole(handle: FileHandle, bytes: Buffer, length: number, position: number): Promise<void> {
  let done = 0;
  while (done < length) done += (await handle.write(bytes, done, length - done, position + done)).bytesWritten;
}

/** Makes the contents of a file survive a power cut. */
export async function syncFile(path: string): Promise<void> {
  await withHandle(path, constants.O_RDWR | noFollow, (handle) => handle.sync());
}

/** Makes the names in a folder (created, renamed, removed) survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  await withHandle(path, 'r', (handle) => handle.sync());
}

/** Renames within one file system, durably; an existing target is replaced. */
export async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncFolder(dirname(to));
}

/** Creates or replaces a link in one step: a reader always finds the old target or the new one. */
export async function swapLink(path: string, target: string): Promise<void> {
  const link = temporaryName(path);
  try {
    await symlink(target, link);
    await renameDurably(link, path);
  } catch (error) {
    await rm(link, { force: true });
    throw error;
  }
}

/** What systems say of a hard link that they cannot make: there are none, or not to this file. */
const unlinkable = new Set(['EPERM', 'EXDEV', 'EMLINK', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EINVAL']);

/**
 * Gives a file another name: as a hard link or, where there are none, as a copy.
 * @param scratch a name in the same file system for an unfinished copy
 */
export async function linkOrCopy(from: string, to: string, scratch: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    if (!unlinkable.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    const { mode } = await stat(from);
    await copyFile(from, scratch, constants.COPYFILE_FICLONE);
    // Only now: the mode may forbid writing.
    await syncFile(scratch);
    await setMode(scratch, mode & 0o777);
    await rename(scratch, to);
  }
}

/** A temporary name for a file that is being written. {@link temporaryPattern} finds the ones that a crash leaves behind. */
export function temporaryName(path: string): string {
  return join(dirname(path), `.${basename(path)}.${randomBytes(4).toString('hex')}.tmp`);
}

export const temporaryPattern = /^\..*\.[0-9a-f]{8}\.tmp(\.wal)?$/;

/**
 * Writes a new file whose content survives a power cut; its name does after {@link syncFolder}.
 * @param mode permissions of the file, whatever the umask
 */
export async function writeSynced(path: string, content: string, mode: number): Promise<void> {
  const handle = await open(path, 'wx', mode);
  try {
    // The command line's umask denies reading to others.
    if ((mode & 0o077) !== 0) await handle.chmod(mode);
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Replaces a file. Readers see the old content or the new one, never a mixture, even after a crash at any moment.
 * @param mode permissions of the file, whatever the umask
 */
export async function writeFileAtomically(path: string, content: string, mode = 0o600): Promise<void> {
  const temporary = temporaryName(path);
  try {
    await writeSynced(temporary, content, mode);
    await renameDurably(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/**
 * The stats of a path; undefined only if nothing has that name.
 * @throws any other error: a folder that may not be entered is not an empty one
 */
export async function statOrUndefined(path: string): Promise<Stats | undefined> {
  return stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined;
    throw error;
  });
}

/** SHA-256 of a file, in hex. */
export async function sha256OfFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

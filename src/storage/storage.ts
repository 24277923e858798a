import { constants } from 'node:fs';
import { access, lstat, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  readStateFile,
  type StateFile,
  setMode,
  statOrUndefined,
  temporaryPattern,
  writeStateFile,
} from '../core/durable.js';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import { isThere, makeFolders } from '../core/folders.js';
import { packageVersion } from '../core/package-version.js';
import { runIdPattern } from '../core/run-report.js';
import { z } from '../core/zod.js';
import type { JobLayout } from './layout.js';
import { probeStorage } from './probe-storage.js';
import { assertNoUntrustedLinks } from './untrusted-links.js';

/** The format of everything under `<storage>/<job>/`. It rises with each change that an older cdsync cannot read. */
const storageFormat = 1;

const formatFile: StateFile<{ format: number; written_by?: string | undefined }> = {
  schema: z.object({ format: z.number().int(), written_by: z.string().optional() }),
  hint: 'restore it from a backup, or point `storage` at another folder',
};

/**
 * Checks that this cdsync can work with the folder.
 * @returns false if the folder has no data yet
 * @throws {CdsyncError} `storage_newer`, `state_unreadable`, `storage_permission`
 */
export async function checkStorage(layout: JobLayout): Promise<boolean> {
  try {
    const format = (await readStateFile(layout.format, formatFile))?.format;
    if (format === undefined) {
      await assertStoreFormat(layout);
      await assertStoreOfPublished(layout);
      return false;
    }
    if (format > storageFormat) {
      throw new CdsyncError(
        `${layout.folder} was written by a newer cdsync (format ${format}, this one reads ${storageFormat})`,
        {
          code: 'storage_newer',
          hint: 'update cdsync, or point `storage` at another folder',
        },
      );
    }
    await assertStoreOfPublished(layout);
    return true;
  } catch (error) {
    throw asCdsyncError(error);
  }
}

/** The version of the cdsync that last wrote to the folder; undefined if there is none, or it does not say. */
export async function storageWriter(layout: JobLayout): Promise<string | undefined> {
  return (await readStateFile(layout.format, formatFile).catch(() => undefined))?.written_by;
}

/** The error in the format file of a store that this cdsync can read; undefined if there is none. */
export async function formatProblem(layout: JobLayout): Promise<string | undefined> {
  const content = await readStateFile(layout.format, formatFile).catch(() => null);
  if (content?.format === storageFormat) return undefined;
  return content === undefined ? 'the file is missing' : `it does not say ${JSON.stringify({ format: storageFormat })}`;
}

/** Refuses a published job whose store is missing or empty: a run would create a new store and lose the history. */
export async function assertStoreOfPublished(layout: JobLayout): Promise<void> {
  const store = await stat(layout.store).catch(() => undefined);
  if (!(await isThere(layout.link)) || (store !== undefined && store.size > 0)) return;
  if (store === undefined && layout.remoteFiles?.find(layout.store) !== undefined) return;
  const hasPrivate = await isThere(layout.format);
  const lacks = store === undefined ? 'missing' : 'empty';
  throw new CdsyncError(`${layout.link} is published, but ${layout.store} is ${lacks}`, {
    code: 'state_unreadable',
    hint: hasPrivate
      ? `the published file is a copy of it: cp ${layout.link} ${layout.store}; or, to start from nothing, move ${layout.folder} away`
      : `the folder was copied in part: restore ${layout.private} too; or, to start from nothing, move ${layout.folder} away`,
  });
}

async function assertStoreFormat(layout: JobLayout): Promise<void> {
  if (!(await isThere(layout.store))) return;
  throw new CdsyncError(`${layout.private} holds a store, but ${layout.format} is missing`, {
    code: 'state_unreadable',
    hint: 'the folder was copied in part; restore it whole, or point `storage` at another folder',
  });
}

/** Permissions of the folders above published files: all users who may read the files may enter the folders. */
export function folderMode(fileMode: number): number {
  return 0o700 | ((fileMode & 0o044) >> 2) | (fileMode & 0o044);
}

function noFolders(cause: NodeJS.ErrnoException): CdsyncError {
  return new CdsyncError(`no folder can be made in ${cause.path}`, {
    code: 'storage_failed',
    hint: 'point `storage` at a folder on a disk',
    cause,
  });
}

/**
 * Creates a folder, and missing ones above it, with this mode whatever the umask. An existing folder gets the mode too, if
 * this user owns it and may use it: a folder without permissions for its owner stays locked.
 */
export async function makeFolder(folder: string, mode: number): Promise<void> {
  const made = await makeFolders(folder, mode).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? noFolders(error) : error;
  });
  const first = made ?? folder;
  for (let at = folder; at.length >= first.length; at = dirname(at)) {
    const { uid, mode: present } = await lstat(at);
    if (uid !== process.getuid?.() || (present & 0o700) !== 0o700 || (present & 0o777) === mode) continue;
    // Keep the setuid, setgid and sticky bits, such as a group that new files inherit.
    await setMode(at, (present & 0o7000) | mode);
  }
}

const publishedName = /\.(parquet|duckdb)$|^manifest\.json$/;

/**
 * Gives files that were published before the mode that new ones get, and their folders its folder mode. Links and files of other users
 * stay as they are.
 */
export async function openPublishedFolder(folder: string, mode: number): Promise<void> {
  const { uid, mode: present } = await lstat(folder);
  if (uid !== process.getuid?.() || (present & 0o700) !== 0o700) return;
  await makeFolder(folder, folderMode(mode));
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await openPublishedFolder(path, mode);
    else if (entry.isFile() && publishedName.test(entry.name)) {
      const file = await lstat(path);
      if (file.uid === uid && (file.mode & 0o777) !== mode) await setMode(path, mode);
    }
  }
}

/**
 * Creates the missing folders of a job, and checks that all can be written to.
 * @throws {CdsyncError} those of {@link assertNoUntrustedLinks}, {@link probeStorage} and {@link checkStorage}; `storage_permission`
 */
export async function prepareStorage(layout: JobLayout, publishMode: number): Promise<void> {
  try {
    await assertNoUntrustedLinks(layout);
    const open = folderMode(publishMode);
    // The next run sweeps this folder, if the trial is killed. Without chmod there is no folder yet, and the trial says so.
    const refused = await makeFolder(layout.folder, open).catch((error: unknown) => ({ error }));
    await probeStorage(layout.folder);
    if (refused !== undefined) throw refused.error;
    const existed = await checkStorage(layout);
    for (const folder of [layout.folder, layout.publishedFolder, layout.parquet]) {
      await makeFolder(folder, open);
      await access(folder, constants.W_OK | constants.X_OK);
    }
    // Only the folder keeps its files private: DuckDB creates files that the umask may let others read.
    for (const folder of [layout.reports, layout.private, layout.locks, layout.runs]) {
      await makeFolder(folder, 0o700);
      await access(folder, constants.W_OK | constants.X_OK);
    }
    if (!existed || (await storageWriter(layout)) !== packageVersion()) await writeFormat(layout);
  } catch (error) {
    throw asCdsyncError(error);
  }
}

/** Writes the format, and who writes here from now on. It runs before the lock is taken, so a run that has the lock may remove this temporary file. */
async function writeFormat(layout: JobLayout): Promise<void> {
  try {
    await writeStateFile(layout.format, { format: storageFormat, written_by: packageVersion() });
  } catch (error) {
    if (!(await checkStorage(layout))) throw error;
  }
}

/**
 * Removes the temporary files and folders that crashed writers have left. Call it only with the job's lock: those of a running
 * run are still being written.
 */
export async function sweepStorage(layout: JobLayout): Promise<void> {
  const streams = (await namesIn(layout.parquet)).map((stream) => layout.stream(stream));
  const feeds = dirname(layout.feed('any'));
  const { folder: top, figuresFolder } = layout;
  const others = [top, layout.publishedFolder, layout.reports, layout.private, layout.locks, feeds, figuresFolder];
  for (const folder of [...others, ...streams]) await sweep(folder);
  await sweepQueries(layout);
}

/** DuckDB writes what does not fit in memory all the time, so a query whose folder has not changed for an hour was killed. */
const queryMs = 3_600_000;

async function sweepQueries({ queries }: JobLayout): Promise<void> {
  for (const name of await namesIn(queries)) {
    const folder = join(queries, name);
    const files = (await namesIn(folder)).map((file) => join(folder, file));
    const stats = await Promise.all([folder, ...files].map(statOrUndefined));
    const changedMs = Math.max(...stats.map((stats) => stats?.mtimeMs ?? 0));
    if (Date.now() - changedMs > queryMs) await rm(folder, { recursive: true, force: true });
  }
}

/** The same for a destination. Call it only with the destination's lock. */
export async function sweepDelivery(layout: JobLayout, destination: string): Promise<void> {
  await sweep(layout.delivery(destination));
}

async function sweep(folder: string): Promise<void> {
  for (const name of await namesIn(folder)) {
    if (temporaryPattern.test(name)) await rm(join(folder, name), { recursive: true, force: true });
  }
}

/** The names in a folder; none if there is no folder. */
export async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return [];
    throw error;
  });
}

/** Ids of the runs that have a private folder, oldest first. */
export async function runFolders(layout: JobLayout): Promise<string[]> {
  return (await namesIn(layout.runs)).filter((name) => runIdPattern.test(name)).sort();
}

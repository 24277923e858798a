import { randomBytes } from 'node:crypto';
import type { Stats } from 'node:fs';
import { lstat, open, readdir, readlink, rm } from 'node:fs/promises';
import { dirname, isAbsolute, join, relative } from 'node:path';
import { asCdsyncError, CdsyncError } from '../core/errors.js';
import type { JobLayout } from './layout.js';

/*
 * An attacker who may write to a storage folder, or who made the archive that it was unpacked from, could put a link in place of a
 * file or folder of cdsync, so that cdsync writes or removes files outside. `storage` itself may be a link; below the job's
 * folder there are none but our own, and these point inside.
 *
 * Node cannot open a file relative to an open folder, so a link that is made between this check and the work is not seen.
 * `.cdsync` is closed to others by its mode and belongs to this user: only this user and root could make one then.
 */

/**
 * Rejects links and special files that cdsync did not make in the folder of a job. Call it before the first file is opened.
 * @param isReader the command writes nothing: another user's files, and folders that may not be read, are no matter
 * @throws {CdsyncError} `storage_link` for a link, a pipe, a socket, a device, or a folder in place of a file; `storage_owner` for a file in `.cdsync` that
 * belongs neither to this user nor to root
 */
export async function assertNoUntrustedLinks(layout: JobLayout, { isReader = false } = {}): Promise<void> {
  try {
    const folder = await statsOf(layout.folder);
    if (folder === undefined) return;
    if (!folder.isDirectory()) throw untrustedLink(layout, layout.folder, folder);
    await checkOwnLink(layout, layout.link);
    for (const top of [layout.publishedFolder, layout.parquet, layout.reports]) await check(layout, top, undefined);
    await check(layout, layout.private, isReader ? undefined : await ownersOf(layout));
  } catch (error) {
    if (isReader && ['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return;
    throw asCdsyncError(error);
  }
}

/** Files without which no command works. Of a folder in place of another file, such as a report, the command that reads it has a better error. */
const ofFiles = /\.duckdb$|\/feeds\/[^/]+\.json$/;

/** A file and, if it is a folder, all below it. */
async function check(layout: JobLayout, path: string, owners: ReadonlySet<number> | undefined): Promise<void> {
  const stats = await statsOf(path);
  if (stats === undefined) return;
  if (owners !== undefined && !owners.has(stats.uid)) throw foreign(layout, path, stats.uid);
  if (stats.isFile()) return;
  if (stats.isSymbolicLink() && isCurrent(layout, path)) return checkOwnLink(layout, path);
  if (!stats.isDirectory() || ofFiles.test(path)) throw untrustedLink(layout, path, stats);
  const names = await readdir(path).catch(goneAs([]));
  await Promise.all(names.map((name) => check(layout, join(path, name), owners)));
}

/** `parquet/<stream>/current`, the link to a stream's newest snapshot, or one that a run was about to put in its place. */
function isCurrent(layout: JobLayout, path: string): boolean {
  return /^[^/]+\/(current|\.current\.[0-9a-f]{8}\.tmp)$/.test(relative(layout.parquet, path));
}

/** Our own links point to something beside or below them. */
async function checkOwnLink(layout: JobLayout, path: string): Promise<void> {
  const stats = await statsOf(path);
  if (stats?.isDirectory() === true) throw untrustedLink(layout, path, stats);
  if (stats?.isSymbolicLink() !== true) return;
  const target = await readlink(path).catch(goneAs('.'));
  if (isAbsolute(target) || target.split('/').includes('..')) throw untrustedLink(layout, path, stats);
}

/** The users whose files may be in `.cdsync`; undefined if the system has none. */
async function ownersOf(layout: JobLayout): Promise<ReadonlySet<number> | undefined> {
  const user = process.geteuid?.();
  const folder = await statsOf(layout.private);
  if (user === undefined || folder === undefined || !folder.isDirectory()) return undefined;
  const owners = new Set([0, user]);
  // On some network file systems, one user owns all files.
  if (!owners.has(folder.uid)) owners.add(await ownerOfNewFile(layout.private));
  return owners;
}

async function ownerOfNewFile(folder: string): Promise<number> {
  const path = join(folder, `.owner.${randomBytes(4).toString('hex')}.tmp`);
  const file = await open(path, 'wx', 0o600);
  try {
    return (await file.stat()).uid;
  } finally {
    await file.close();
    await rm(path, { force: true });
  }
}

/** Does not follow links; undefined if the path is missing, because other work may remove files. */
async function statsOf(path: string): Promise<Stats | undefined> {
  return lstat(path).catch(goneAs(undefined));
}

function goneAs<T>(value: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code === 'ENOENT') return value;
    throw error;
  };
}

function nameOf(layout: JobLayout, path: string): string {
  return relative(dirname(layout.folder), path);
}

function kindOf(stats: Stats): string {
  if (stats.isSymbolicLink()) return 'a link';
  if (stats.isDirectory()) return 'a folder';
  return stats.isFile() ? 'a file' : 'a pipe, a socket or a device';
}

function untrustedLink(layout: JobLayout, path: string, stats: Stats): CdsyncError {
  const kind = kindOf(stats);
  return new CdsyncError(`${nameOf(layout, path)} is ${kind}; cdsync keeps its own files there, and follows no links`, {
    code: 'storage_link',
    hint:
      path === layout.folder
        ? 'let `storage` itself name the other place, or move the folder back'
        : 'nothing of it was read or written. Find out who put it there, remove it, and run again',
  });
}

function foreign(layout: JobLayout, path: string, uid: number): CdsyncError {
  return new CdsyncError(`${nameOf(layout, path)} belongs to another user (${uid})`, {
    code: 'storage_owner',
    hint: 'run as that user; or, if you trust the files in the folder, make them yours: chown -R',
  });
}

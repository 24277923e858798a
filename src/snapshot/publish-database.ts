import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { copyFile, readdir, readlink, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import {
  renameDurably,
  setMode,
  sha256OfFile,
  statOrUndefined,
  swapLink,
  syncFile,
  syncFolder,
  temporaryName,
} from '../core/durable.js';
import { readAllValues } from '../storage/database-file.js';
import type { Database } from '../storage/duckdb.js';
import type { JobLayout } from '../storage/layout.js';
import { folderMode, makeFolder } from '../storage/storage.js';
import type { StoreState } from './snapshot-store.js';

/*
 * A version of the DuckDB file is `published/<version>/<job>.duckdb`. Its name is the number of the commit; one that replaces
 * another of the same number gets 8 hex digits more. So no file ever gets a name that another one had: someone may have that open,
 * and DuckDB would apply the log that they leave beside it to the new file.
 *
 * Before there were folders, the files were `published/<sequence>.duckdb`.
 */

const versionPattern = /^(\d+)(?:-[0-9a-f]{8})?$/;
const earlierFormPattern = /^(\d+)\.duckdb(?:\.wal)?$/;

interface DatabaseOptions {
  /** Permissions of the published file. */
  readonly mode: number;
  /** Whether to write the file again if the present one, although it seems whole, is not a copy of the store. */
  readonly again?: boolean;
  /** Whether the version before stays, for those who have it open. */
  readonly keepsEarlier: boolean;
}

/** The version that the link points to, a name in the folder of published files; undefined if it points to another place. */
async function linkedVersion(layout: JobLayout): Promise<string | undefined> {
  const [folder, version = '', file] = (await readlink(layout.link).catch(() => '')).split('/');
  const isOurs = folder === relative(layout.folder, layout.publishedFolder) && file === `${layout.job}.duckdb`;
  return isOurs && versionPattern.test(version) ? version : undefined;
}

/** When the published file was copied from the store, in milliseconds since 1970; Infinity if there is none. */
export async function publishedAt(layout: JobLayout): Promise<number> {
  const version = await linkedVersion(layout);
  const folder = version === undefined ? undefined : await statOrUndefined(dirname(layout.published(version)));
  return folder?.mtimeMs ?? Number.POSITIVE_INFINITY;
}

/** The logs that DuckDB writes beside a published file before it changes it: one for each name of the file. */
export async function publishedLogs(layout: JobLayout): Promise<string[]> {
  const target = await readlink(layout.link).catch(() => undefined);
  const names = target === undefined ? [layout.link] : [layout.link, join(layout.folder, target)];
  return names.map((path) => `${path}.wal`);
}

/**
 * The version with this number that no one has open for writing: the one the link points to or, if publishing was cut short, one
 * without a link. With the time of the store no one has written to it; with another time someone may have, or has only copied the
 * folder.
 */
async function versionOf(
  layout: JobLayout,
  sequence: number,
  seconds: number,
): Promise<{ readonly version: string; readonly isWhole: boolean } | undefined> {
  const linked = await linkedVersion(layout);
  const version = linked?.split('-')[0] === String(sequence) ? linked : String(sequence);
  const path = layout.published(version);
  for (const name of [layout.link, path]) if ((await statOrUndefined(`${name}.wal`)) !== undefined) return undefined;
  const changedMs = (await statOrUndefined(path))?.mtimeMs ?? layout.remoteFiles?.find(path)?.changedMs;
  return changedMs === undefined ? undefined : { version, isWhole: changedMs === seconds * 1000 };
}

/** The checksum of a published version, also of one that is not on this disk. */
async function sumOf(layout: JobLayout, version: string): Promise<string> {
  const path = layout.published(version);
  return layout.remoteFiles?.find(path)?.sha256 ?? sha256OfFile(path);
}

/** Copies the store into a new folder, which gets its name when all is in it. @returns the name of the version */
async function copyStore(
  database: Database,
  layout: JobLayout,
  { sequence, seconds, present }: { sequence: number; seconds: number; present: string | undefined },
  mode: number,
): Promise<string> {
  const folder = temporaryName(join(layout.publishedFolder, String(sequence)));
  const copy = join(folder, `${layout.job}.duckdb`);
  try {
    await makeFolder(folder, folderMode(mode));
    // If the file system can share blocks, the copy takes no space.
    await copyFile(layout.store, copy, constants.COPYFILE_FICLONE | constants.COPYFILE_EXCL);
    await utimes(copy, seconds, seconds);
    await syncFile(copy);
    // Only now: the mode may forbid writing.
    await setMode(copy, mode);
    // A block that went bad on the disk must not replace one that people can still read.
    await readAllValues(database, copy);
    const isSame = present !== undefined && (await sumOf(layout, present)) === (await sha256OfFile(copy));
    if (!isSame) {
      await syncFolder(folder);
      const isTaken = (await statOrUndefined(dirname(layout.published(sequence)))) !== undefined;
      const version = isTaken ? `${sequence}-${randomBytes(4).toString('hex')}` : String(sequence);
      await renameDurably(folder, dirname(layout.published(version)));
      return version;
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
  await rm(folder, { recursive: true, force: true });
  return present as string;
}

/**
 * Publishes a copy of the store as the file that people open. The link is swapped by a rename, so everyone who opens it gets
 * one whole version. The previous version stays for those who have it open. The store must not be attached anywhere.
 */
export async function publishDatabase(
  database: Database,
  layout: JobLayout,
  state: StoreState,
  { mode, keepsEarlier, again = false }: DatabaseOptions,
): Promise<void> {
  const { sequence } = state;
  // The modification time of a published file: when the store's last change was synced.
  const times = [...state.streams.values()].map(({ synced_at }) => Date.parse(synced_at));
  const seconds = Math.floor(Math.max(0, ...times) / 1000);
  const present = await versionOf(layout, sequence, seconds);
  const isFresh = present?.isWhole === true && !again;
  const copying = { sequence, seconds, present: present?.version };
  const version = isFresh ? present.version : await copyStore(database, layout, copying, mode);
  // So that the next run need not compare them. Another user's file keeps its time.
  if (present?.isWhole === false && version === present.version)
    await utimes(layout.published(version), seconds, seconds).catch(() => undefined);
  const target = relative(layout.folder, layout.published(version));
  if ((await readlink(layout.link).catch(() => undefined)) !== target) {
    // Some programs name the log after the link: DuckDB would apply it to the new version.
    await rm(`${layout.link}.wal`, { force: true });
    await swapLink(layout.link, target);
  }
  await prune(layout, version, keepsEarlier);
}

interface Earlier {
  readonly name: string;
  readonly sequence: number;
  readonly since: number;
}

/** A published version by its name in the folder; undefined if it has no file. */
async function versionNamed(layout: JobLayout, name: string): Promise<Earlier | undefined> {
  const isFolder = versionPattern.test(name);
  const path = join(layout.publishedFolder, name);
  const file = isFolder ? layout.published(name) : path;
  if (name.endsWith('.wal') || (await statOrUndefined(file)) === undefined) return undefined;
  return { name, sequence: Number.parseInt(name, 10), since: (await stat(path)).mtimeMs };
}

/** Keeps the version that the link points to and, for those who have it open, the one before. Removes all others. */
async function prune(layout: JobLayout, version: string, keepsEarlier: boolean): Promise<void> {
  const sequence = Number.parseInt(version, 10);
  const names = (await readdir(layout.publishedFolder)).filter(
    (name) => name !== version && (versionPattern.test(name) || earlierFormPattern.test(name)),
  );
  if (names.length === 0) return;
  const versions = await Promise.all(names.map((name) => versionNamed(layout, name)));
  const earlier = versions
    .filter((earlier) => earlier !== undefined)
    .filter((earlier) => earlier.sequence <= sequence)
    .sort((a, b) => b.sequence - a.sequence || b.since - a.since)[0]?.name;
  for (const name of names) {
    if (keepsEarlier && earlier !== undefined && (name === earlier || name === `${earlier}.wal`)) continue;
    await rm(join(layout.publishedFolder, name), { recursive: true, force: true });
  }
}

import type { Dirent } from 'node:fs';
import { mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/**
 * Creates a folder and the missing ones above it. Node's own way never ends if a file system reports that the new folder does not exist
 * (`/proc`), and calls a read-only file system a missing folder.
 * @param mode permissions, less those that the umask removes
 * @returns the first folder that was made; undefined if all were there
 * @throws {Error} the error of the file system; `EEXIST` if a file is there; `ENOENT` if it makes no folders there, with the folder above as `path`
 */
export async function makeFolders(folder: string, mode: number): Promise<string | undefined> {
  const missing = await makeOne(folder, mode);
  if (missing === undefined) return folder;
  if (missing.code === 'EEXIST') {
    if (!(await stat(folder)).isDirectory()) throw missing;
    return undefined;
  }
  const above = dirname(folder);
  // Another process may make the same folders at the same time, also the one above since it was found missing.
  const first = (await isThere(above)) ? undefined : await makeFolders(above, mode);
  const failure = await makeOne(folder, mode);
  if (failure?.code === 'ENOENT') throw Object.assign(failure, { path: above });
  return first ?? (failure === undefined ? folder : undefined);
}

/** @returns why it was not made, if it is there or the one above is not */
async function makeOne(folder: string, mode: number): Promise<NodeJS.ErrnoException | undefined> {
  try {
    await mkdir(folder, { mode });
    return undefined;
  } catch (error) {
    const failure = error as NodeJS.ErrnoException;
    if (failure.code !== 'EEXIST' && failure.code !== 'ENOENT') throw error;
    return failure;
  }
}

/** Whether a path can be seen. */
export async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}

/**
 * The entries of a folder and of all folders below it; those of a folder that another process removes are left out. It follows no link:
 * Node's own recursive `readdir` does since version 26, out of the folder and in circles.
 * @throws {Error} the error of the file system; `ENOENT` if there is no such folder
 */
export async function entriesBelow(folder: string): Promise<Dirent[]> {
  const entries: Dirent[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    entries.push(entry);
    if (!entry.isDirectory()) continue;
    const below = await entriesBelow(join(folder, entry.name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return [];
      throw error;
    });
    for (const entry of below) entries.push(entry);
  }
  return entries;
}

import { readdir, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Bytes that this user may still write to the file system of a folder, which need not exist yet. */
export async function freeSpace(folder: string): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(folder);
    return bavail * bsize;
  } catch (error) {
    const above = dirname(folder);
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || above === folder) throw error;
    return freeSpace(above);
  }
}

/** Bytes of the files below a folder; 0 if there is no folder. Does not follow links. */
export async function bytesBelow(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile());
  const sizes = files.map((entry) => stat(join(entry.parentPath, entry.name)).catch(() => undefined));
  return (await Promise.all(sizes)).reduce((sum, found) => sum + (found?.size ?? 0), 0);
}

/** Bytes of one file; 0 if there is none. */
export async function bytesOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

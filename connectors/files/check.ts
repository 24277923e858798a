import { access, constants, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import {
  type DestinationCheck,
  type DestinationContext,
  loadRefused,
  permissionMissing,
  s3Library,
} from '../../src/sdk/index.js';
import type { FilesShape } from './options.js';

/** The folder itself, or the nearest one above it that exists. */
async function existing(folder: string): Promise<{ path: string; isFolder: boolean }> {
  const above = dirname(folder);
  try {
    return { path: folder, isFolder: (await stat(folder)).isDirectory() };
  } catch (error) {
    if (above === folder || (error as NodeJS.ErrnoException).code !== 'ENOENT')
      return { path: folder, isFolder: false };
    return existing(above);
  }
}

async function checkFolder(folder: string): Promise<DestinationCheck> {
  const { path, isFolder } = await existing(folder);
  if (!isFolder) throw loadRefused(`${path} is not a folder`, { hint: 'give `path` a folder' });
  try {
    await access(path, constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw permissionMissing(`the folder ${path} may not be written`, {
      hint: 'check who owns it, and run as that user',
      cause,
    });
  }
  return { reached: path === folder ? folder : `${folder}, which the first load creates`, lacks: [] };
}

/** Looks at the folder, or lists the bucket. */
export async function checkFilesPlace({
  options,
  notice,
  signal,
}: DestinationContext<FilesShape>): Promise<DestinationCheck> {
  const { path, url } = options;
  if (url === undefined) return checkFolder(path ?? '.');
  const { S3Store } = await s3Library();
  const store = await S3Store.look({ ...options, url, notice, signal });
  try {
    await store.folders();
    return { reached: store.place, lacks: [], untried: 'writing is tested by the first load' };
  } finally {
    store.close();
  }
}

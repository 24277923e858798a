import { stat } from 'node:fs/promises';
import {
  type DestinationCheck,
  type DestinationContext,
  loadRefused,
  nearestExisting,
  objectStore,
  reachedStore,
  unwritable,
} from '../../src/sdk/index.js';
import type { FilesShape } from './options.js';

async function checkFolder(folder: string): Promise<DestinationCheck> {
  const path = await nearestExisting(folder);
  if (!(await stat(path)).isDirectory()) throw loadRefused(`${path} is not a folder`, { hint: 'give `path` a folder' });
  const reached = path === folder ? folder : `${folder}, which the first load creates`;
  return { reached, lacks: await unwritable([path]) };
}

/** Looks at the folder, or lists the bucket. */
export async function checkFilesPlace({
  options,
  notice,
  signal,
}: DestinationContext<FilesShape>): Promise<DestinationCheck> {
  const { path, url } = options;
  if (url === undefined) return checkFolder(path ?? '.');
  const store = await objectStore({ ...options, url, notice, signal });
  try {
    await store.folders();
    return { reached: reachedStore(store), lacks: [], untried: 'writing is tested by the first load' };
  } finally {
    store.close();
  }
}

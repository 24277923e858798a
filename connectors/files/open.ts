import {
  type DestinationContext,
  objectStore,
  orClose,
  s3Library,
  type TableDestination,
} from '../../src/sdk/index.js';
import { FolderStore } from './folder-store.js';
import { FilesDestination } from './load.js';
import type { FilesShape } from './options.js';
import type { FileStore } from './store.js';

async function openStore({ options, notice, signal, isReadOnly }: DestinationContext<FilesShape>): Promise<FileStore> {
  const { path, url } = options;
  if (url === undefined) return FolderStore.open(path ?? '.', Number.parseInt(options.fileMode, 8), isReadOnly);
  const at = { ...options, url, notice, signal };
  // Azure always has conditional writes; of S3, the first request that writes finds out.
  if (isReadOnly === true || url.startsWith('az:')) return objectStore(at);
  return (await s3Library()).S3Store.open(at);
}

/** Opens the folder or object store of the files. */
export async function openFiles(context: DestinationContext<FilesShape>): Promise<TableDestination> {
  const store = await openStore(context);
  return orClose(store, () => FilesDestination.open(store, context));
}

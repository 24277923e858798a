import { type DestinationContext, orClose, s3Library, type TableDestination } from '../../src/sdk/index.js';
import { FolderStore } from './folder-store.js';
import { FilesDestination } from './load.js';
import type { FilesShape } from './options.js';
import type { FileStore } from './store.js';

async function openStore({ options, notice, signal, isReadOnly }: DestinationContext<FilesShape>): Promise<FileStore> {
  const { path, url } = options;
  if (url === undefined) return FolderStore.open(path ?? '.', Number.parseInt(options.fileMode, 8), isReadOnly);
  const { S3Store } = await s3Library();
  const at = { ...options, url, notice, signal };
  return isReadOnly === true ? S3Store.look(at) : S3Store.open(at);
}

/** Opens the folder or object store of the files. */
export async function openFiles(context: DestinationContext<FilesShape>): Promise<TableDestination> {
  const store = await openStore(context);
  return orClose(store, () => FilesDestination.open(store, context));
}

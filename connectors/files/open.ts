import { type DestinationContext, s3Library, type TableDestination } from '../../src/sdk/index.js';
import { FolderStore } from './folder-store.js';
import { FilesDestination } from './load.js';
import type { FilesShape } from './options.js';
import type { FileStore } from './store.js';

async function openStore({ options, notice, signal }: DestinationContext<FilesShape>): Promise<FileStore> {
  const { path, url } = options;
  if (url === undefined) return FolderStore.open(path ?? '.', Number.parseInt(options.fileMode, 8));
  const { S3Store } = await s3Library();
  return S3Store.open({ ...options, url, notice, signal });
}

/** Opens the folder or object store of the files. */
export async function openFiles(context: DestinationContext<FilesShape>): Promise<TableDestination> {
  return new FilesDestination(await openStore(context), context);
}

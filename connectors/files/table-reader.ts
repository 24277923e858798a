import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { loadRefused, sha256OfFile, type TableColumn } from '../../src/sdk/index.js';
import { type LocalFile, readSql } from './formats.js';
import { folderOf, type Manifest, type SetFile, TableSets } from './manifest.js';
import type { FileStore } from './store.js';

/** Reads the sets of tables. */
export class TableReader {
  readonly #store: FileStore;
  readonly #folder: string;

  /** @param folder a local folder, for copies of the files of a remote store */
  constructor(store: FileStore, folder: string) {
    this.#store = store;
    this.#folder = join(folder, 'fetched');
  }

  /**
   * A query that reads these columns of a set's rows. It is valid until the next call.
   * @throws {CdsyncError} if a file is missing
   */
  async query(manifest: Manifest, columns: readonly TableColumn[]): Promise<string> {
    await rm(this.#folder, { recursive: true, force: true });
    const files: LocalFile[] = [];
    for (const file of manifest.files) {
      const path = this.#path(manifest, file);
      if ((await this.#store.head(path)) === undefined) throw this.#missing(manifest, file);
      files.push({ path: await this.#store.fetch(path, this.#folder), partition: file.partition });
    }
    return readSql({ files, layout: manifest, columns });
  }

  /**
   * Whether each file of a set is as its manifest says. Of files that were changed after the manifest was written, the content is
   * read; of the others, the length is compared.
   */
  async isAsWritten(manifest: Manifest): Promise<boolean> {
    const committed = await this.#store.head(new TableSets(this.#store, folderOf(manifest.table)).path(manifest.set));
    for (const file of manifest.files) {
      const path = this.#path(manifest, file);
      const head = await this.#store.head(path);
      if (head?.bytes !== file.bytes) return false;
      if (committed !== undefined && head.changedMs <= committed.changedMs) continue;
      if ((await sha256OfFile(await this.#store.fetch(path, this.#folder))) !== file.sha256) return false;
    }
    return true;
  }

  #path({ table }: Manifest, { path }: SetFile): string {
    return `${folderOf(table)}/${path}`;
  }

  #missing({ table }: Manifest, { path }: SetFile): Error {
    // Leave out the folders in between: they hold values of the partition columns.
    const [, set, ...inside] = path.split('/');
    return loadRefused(`${inside.at(-1)} of set ${set} of table "${table}" is missing in ${this.#store.place}`, {
      hint: 'put it back; or cdsync push --recreate loads the rows of the snapshot, and no others',
    });
  }
}

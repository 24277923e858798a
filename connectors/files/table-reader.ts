import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { loadRefused, type TableColumn } from '../../src/sdk/index.js';
import { type LocalFile, readSql } from './formats.js';
import { folderOf, type Manifest, type SetFile } from './manifest.js';
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
   * @throws {CdsyncError} if a file is not as the manifest says
   */
  async query(manifest: Manifest, columns: readonly TableColumn[]): Promise<string> {
    await rm(this.#folder, { recursive: true, force: true });
    const files: LocalFile[] = [];
    for (const file of manifest.files) {
      await this.#check(manifest, file);
      const path = await this.#store.fetch(`${folderOf(manifest.table)}/${file.path}`, this.#folder);
      files.push({ path, partition: file.partition });
    }
    return readSql({ files, layout: manifest, columns });
  }

  /** Checks that each file of a set exists with its full length. @throws {CdsyncError} */
  async checkAll(manifest: Manifest): Promise<void> {
    for (const file of manifest.files) await this.#check(manifest, file);
  }

  async #check({ table }: Manifest, { path, bytes }: SetFile): Promise<void> {
    const found = await this.#store.size(`${folderOf(table)}/${path}`);
    if (found === bytes) return;
    const what = found === undefined ? 'is missing' : `has ${found} bytes instead of ${bytes}`;
    // Leave out the folders in between: they hold values of the partition columns.
    const [, set, ...inside] = path.split('/');
    throw loadRefused(`${inside.at(-1)} of set ${set} of table "${table}" ${what} in ${this.#store.place}`, {
      hint: 'another program has changed it; with mode replace or mirror, cdsync push --full rewrites all files',
    });
  }
}

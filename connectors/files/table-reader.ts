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

  /** @param folder where files of a store that is elsewhere are copied to */
  constructor(store: FileStore, folder: string) {
    this.#store = store;
    this.#folder = join(folder, 'fetched');
  }

  /**
   * A query of the rows of a set, in these columns of it. It holds until the next call.
   * @throws {CdsyncError} where a file is not what the manifest says
   */
  async query(manifest: Manifest, columns: readonly TableColumn[]): Promise<string> {
    await rm(this.#folder, { recursive: true, force: true });
    const files: LocalFile[] = [];
    for (const file of manifest.files) {
      await this.#check(manifest, file);
      const path = await this.#store.fetch(`${folderOf(manifest.table)}/${file.path}`, this.#folder);
      files.push({ path, partition: file.partition });
    }
    return readSql({ files, format: manifest.format, columns, partitionBy: manifest.partition_by });
  }

  /** Finds each file of a set there, in its full length. @throws {CdsyncError} */
  async checkAll(manifest: Manifest): Promise<void> {
    for (const file of manifest.files) await this.#check(manifest, file);
  }

  async #check({ table }: Manifest, { path, bytes }: SetFile): Promise<void> {
    const found = await this.#store.size(`${folderOf(table)}/${path}`);
    if (found === bytes) return;
    const what = found === undefined ? 'is missing' : `has ${found} bytes in the place of ${bytes}`;
    // Folders in between are values.
    const [, set, ...inside] = path.split('/');
    throw loadRefused(`${inside.at(-1)} of set ${set} of table "${table}" ${what} in ${this.#store.place}`, {
      hint: 'something else has touched it; with mode replace or mirror, cdsync push --full writes all of it anew',
    });
  }
}

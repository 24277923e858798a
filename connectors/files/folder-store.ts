import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, copyFile, link, readdir, readFile, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  CdsyncError,
  entriesBelow,
  loadRefused,
  makeFolders,
  permissionMissing,
  renameDurably,
  statOrUndefined,
  syncFile,
  syncFolder,
  temporaryName,
  writeFileAtomically,
  writeSynced,
} from '../../src/sdk/index.js';
import type { FileStore, Tagged } from './store.js';

type SystemError = NodeJS.ErrnoException;

/** For a failure: this value if there is no such file or folder. */
function ifMissing<T>(value: T): (error: SystemError) => T {
  return (error) => {
    if (error.code === 'ENOENT') return value;
    throw error;
  };
}

function tagOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Files in a folder of this machine. Each file is synced first, and then gets its name by a rename or a link. */
export class FolderStore implements FileStore {
  readonly place: string;
  readonly isLocal = true;
  readonly #mode: number;
  readonly #folderMode: number;

  private constructor(root: string, mode: number) {
    this.place = root;
    this.#mode = mode;
    // Users who may read the files may also list and enter their folder.
    this.#folderMode = 0o700 | ((mode & 0o444) | ((mode & 0o444) >> 2));
  }

  /** @param mode permissions of files @param isReadOnly makes nothing, not even the folder */
  static async open(root: string, mode: number, isReadOnly = false): Promise<FolderStore> {
    const store = new FolderStore(root, mode);
    if (!isReadOnly) await store.#classified(() => store.#folder(root));
    return store;
  }

  folders(): Promise<string[]> {
    return this.#classified(async () => {
      const entries = await readdir(this.place, { withFileTypes: true }).catch(ifMissing([]));
      return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    });
  }

  files(folder: string): Promise<string[]> {
    return this.#classified(async () => {
      const entries = await entriesBelow(this.#path(folder)).catch(ifMissing([]));
      const files = entries.filter((entry) => entry.isFile());
      return files.map(({ parentPath, name }) => join(parentPath, name).slice(this.place.length + 1));
    });
  }

  read(path: string): Promise<Tagged | undefined> {
    return this.#classified(async () => {
      const text = await readFile(this.#path(path), 'utf8').catch(ifMissing(undefined));
      return text === undefined ? undefined : { text, tag: tagOf(text) };
    });
  }

  create(path: string, text: string): Promise<boolean> {
    return this.#classified(async () => {
      const temporary = await this.#temporary(path);
      try {
        await writeSynced(temporary, text, this.#mode);
        await linkOrCopy(temporary, this.#path(path));
        await syncFolder(dirname(temporary));
        return true;
      } catch (error) {
        if ((error as SystemError).code === 'EEXIST') return false;
        throw error;
      } finally {
        await rm(temporary, { force: true });
      }
    });
  }

  async replace(path: string, text: string, tag: string | undefined): Promise<boolean> {
    if ((await this.read(path))?.tag !== tag) return false;
    await this.#classified(async () => {
      await this.#folder(dirname(this.#path(path)));
      await writeFileAtomically(this.#path(path), text, this.#mode);
    });
    return true;
  }

  put(local: string, path: string): Promise<void> {
    return this.#classified(async () => {
      const temporary = await this.#temporary(path);
      await copyFile(local, temporary, constants.COPYFILE_FICLONE);
      await syncFile(temporary);
      await chmod(temporary, this.#mode);
      await renameDurably(temporary, this.#path(path));
    });
  }

  head(path: string): Promise<{ bytes: number; changedMs: number } | undefined> {
    return this.#classified(async () => {
      const stats = await statOrUndefined(this.#path(path));
      return stats && { bytes: stats.size, changedMs: stats.mtimeMs };
    });
  }

  async fetch(path: string): Promise<string> {
    return this.#path(path);
  }

  remove(paths: readonly string[]): Promise<void> {
    return this.#classified(async () => {
      for (const path of paths) await rm(this.#path(path), { force: true });
      for (const folder of new Set(paths.map((path) => dirname(this.#path(path))))) await this.#removeEmpty(folder);
    });
  }

  close(): void {}

  #path(path: string): string {
    return join(this.place, path);
  }

  async #removeEmpty(folder: string): Promise<void> {
    for (let at = folder; at.length > this.place.length; at = dirname(at)) {
      const gone = await rmdir(at).then(
        () => true,
        () => false,
      );
      if (!gone) return;
    }
  }

  /** Creates a folder, and missing ones above it. */
  async #folder(path: string): Promise<void> {
    const first = await makeFolders(path, this.#folderMode);
    if (first === undefined) return;
    // The umask may have removed permissions.
    for (let at = path; at.length >= first.length; at = dirname(at)) {
      await chmod(at, this.#folderMode);
      await syncFolder(dirname(at));
    }
  }

  /** A name for an unfinished file, in a folder that is there. */
  async #temporary(path: string): Promise<string> {
    await this.#folder(dirname(this.#path(path)));
    return temporaryName(this.#path(path));
  }

  async #classified<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#error(error);
    }
  }

  #error(error: unknown): unknown {
    const { code } = error as SystemError;
    if (error instanceof CdsyncError) return error;
    if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
      return permissionMissing(`the folder ${this.place} may not be written (${code})`, {
        hint: 'check who owns it, and run as that user',
        cause: error,
      });
    }
    if (code === 'ENOTDIR' || code === 'EEXIST')
      return loadRefused(`${this.place} is not a folder`, { hint: 'give `path` a folder', cause: error });
    if (code === 'ENOSPC' || code === 'EDQUOT')
      return loadRefused(`there is no space left for ${this.place}`, { hint: 'free some space', cause: error });
    if (code === undefined) return error;
    // The system's message names the path, which may hold values of partition columns.
    return loadRefused(`a file in ${this.place} could not be read or written (${code})`, {
      cause: error,
      causeQuotesValues: true,
    });
  }
}

/** Links the file to its name. On a file system without links it copies instead; the name then exists before its content does. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    const { code = '' } = error as SystemError;
    if (!['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(code)) throw error;
    await copyFile(from, to, constants.COPYFILE_EXCL);
    await syncFile(to);
  }
}

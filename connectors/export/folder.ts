import { chmod, constants, copyFile, link, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  CdsyncError,
  type DestinationCheck,
  loadRefused,
  makeFolders,
  nearestExisting,
  permissionMissing,
  renameDurably,
  sha256OfFile,
  statOrUndefined,
  syncFile,
  syncFolder,
  unwritable,
} from '../../src/sdk/index.js';
import type { FoundFile, PutTask, Store } from './place.js';

type SystemError = NodeJS.ErrnoException;
const isFolder = ['a folder has the name of the file, or its temporary name', 'correct `file` or `temporary`'] as const;
const noLinks = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK']);

/** A folder of this machine, or one that is mounted. */
export class FolderStore implements Store {
  readonly #root: string;
  readonly #mode: number;

  constructor(root: string, mode: number) {
    this.#root = root;
    this.#mode = mode;
  }

  find(name: string): Promise<FoundFile | undefined> {
    const path = join(this.#root, name);
    return this.#classified(async () => {
      const stats = await statOrUndefined(path);
      const bytes = stats?.isFile() ? stats.size : -1;
      return stats && { bytes, links: stats.nlink, sha256: () => sha256OfFile(path) };
    });
  }

  put({ local, name, temporary = name, replaces, file, uploaded }: PutTask): Promise<'put' | 'taken'> {
    const target = join(this.#root, name);
    const scratch = join(this.#root, temporary);
    return this.#classified(async () => {
      for (const path of [target, scratch])
        await makeFolders(dirname(path), 0o700 | (this.#mode & 0o444) | ((this.#mode & 0o444) >> 2));
      // A file of the name could be a link to another folder.
      if (scratch !== target || replaces) await rm(scratch, { force: true });
      if (!(await this.#copy(local, scratch))) return 'taken';
      const { size } = await stat(scratch);
      if (size !== file.bytes) throw loadRefused(`only ${size} of ${file.bytes} bytes of "${name}" arrived`);
      if (scratch === target) return 'put';
      await uploaded();
      if (replaces) {
        await renameDurably(scratch, target);
        return 'put';
      }
      return (await this.#nameAnew(scratch, target)) ? 'put' : 'taken';
    });
  }

  /** @returns false if something has the name */
  async #copy(local: string, path: string): Promise<boolean> {
    try {
      await copyFile(local, path, constants.COPYFILE_EXCL);
      await syncFile(path);
      await chmod(path, this.#mode);
      return true;
    } catch (error) {
      if ((error as SystemError).code === 'EEXIST') return false;
      await rm(path, { force: true }).catch(() => undefined);
      throw error;
    }
  }

  /** Gives a file its final name, unless something has it. */
  async #nameAnew(scratch: string, target: string): Promise<boolean> {
    try {
      await link(scratch, target);
      await rm(scratch);
      await syncFolder(dirname(target));
      return true;
    } catch (error) {
      const { code = '' } = error as SystemError;
      if (code === 'EEXIST') {
        await rm(scratch, { force: true });
        return false;
      }
      if (!noLinks.has(code)) throw error;
      if ((await statOrUndefined(target)) !== undefined) return false;
      await renameDurably(scratch, target);
      return true;
    }
  }

  remove(name: string): Promise<boolean> {
    return this.#classified(async () => {
      if ((await statOrUndefined(join(this.#root, name))) === undefined) return false;
      await rm(join(this.#root, name));
      return true;
    });
  }

  async check(): Promise<DestinationCheck> {
    const path = await nearestExisting(this.#root);
    if (!(await stat(path)).isDirectory())
      throw loadRefused(`${path} is not a folder`, { hint: 'give `path` a folder' });
    const reached = path === this.#root ? path : `${this.#root}, which the first file creates`;
    return { reached, lacks: await unwritable([path]) };
  }

  close(): void {}

  async #classified<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const { code } = error as SystemError;
      if (error instanceof CdsyncError || code === undefined) throw error;
      if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
        throw permissionMissing(`the folder ${this.#root} may not be written (${code})`, {
          hint: 'check who owns it, and run as that user',
          cause: error,
        });
      const reasons: Readonly<Record<string, readonly [string, string]>> = {
        ENOSPC: [`there is no space left for ${this.#root}`, 'free some space'],
        EDQUOT: [`there is no space left for ${this.#root}`, 'free some space'],
        ENAMETOOLONG: ['a name is too long for that folder', 'shorten `file`'],
        ENOTDIR: [`${this.#root} is not a folder, or a part of the name is a file`, 'correct `path` or `file`'],
        EEXIST: [`${this.#root} is not a folder`, 'correct `path`'],
        EISDIR: isFolder,
        ERR_FS_EISDIR: isFolder,
      };
      const [message, hint] = reasons[code] ?? [`a file in ${this.#root} could not be written (${code})`, undefined];
      throw loadRefused(message, { hint, cause: error });
    }
  }
}

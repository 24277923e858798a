import { type FileHandle, open } from 'node:fs/promises';
import type { Stats } from 'ssh2';
import { CdsyncError, type DestinationCheck, loadRefused, orClose, permissionMissing } from '../../src/sdk/index.js';
import type { FoundFile, PutTask, Store } from './place.js';
import { type SftpLogin, SftpSession } from './sftp-session.js';

/** Bytes in a request, and requests under way: with one at a time, each waits for the response to the one before. */
const requestBytes = 32 * 1024;
const requestsAtOnce = 64;
/** Status codes of servers: `no such file`, `permission denied`, `failure`, `not supported`. */
const [missing, denied, failure, unsupported] = [2, 3, 4, 8];

const codeOf = (error: unknown) => (error as { readonly code?: unknown }).code;
const isAnswer = (error: unknown) => typeof codeOf(error) === 'number';

/** A folder of an SFTP server. */
export class SftpStore implements Store {
  readonly #session: SftpSession;
  readonly #root: string;
  readonly #mode: number;

  private constructor(session: SftpSession, root: string, mode: number) {
    this.#session = session;
    this.#root = root;
    this.#mode = mode;
  }

  static async open(login: SftpLogin, mode: number): Promise<SftpStore> {
    const path = decodeURIComponent(new URL(login.url).pathname).replace(/\/+$/, '');
    const session = await SftpSession.open(login);
    return orClose(session, () => new SftpStore(session, path.startsWith('/~/') ? path.slice(3) : path, mode));
  }

  #path(name: string): string {
    return this.#root === '' ? `/${name}` : `${this.#root}/${name}`;
  }

  async find(name: string): Promise<FoundFile | undefined | 'unknown'> {
    try {
      const { size } = await this.#stat(this.#path(name));
      return { bytes: size };
    } catch (error) {
      if (!isAnswer(error)) throw error;
      return codeOf(error) === missing ? undefined : 'unknown';
    }
  }

  #stat(path: string): Promise<Stats> {
    return this.#session.call<Stats>((done) => this.#session.sftp.stat(path, done));
  }

  async put(task: PutTask): Promise<'put' | 'not_read_back' | 'taken'> {
    const { name, temporary = name, file, replaces, uploaded, refused } = task;
    await this.#makeFolders([name, temporary]);
    const isDirect = temporary === name;
    const handle = await this.#create(temporary, isDirect && !replaces).catch(async (error: unknown) => {
      // A server that opens no file has none of this try.
      if (error instanceof CdsyncError && error.kind !== 'retryable') await refused();
      throw error;
    });
    if (handle === undefined) return 'taken';
    let isReadBack: boolean;
    try {
      isReadBack = await this.#write(handle, task);
    } catch (error) {
      if (isAnswer(error) || error instanceof CdsyncError) await this.#removeQuietly(temporary);
      throw isAnswer(error) ? await this.#explained(error, name) : error;
    }
    if (isDirect) return isReadBack ? 'put' : 'not_read_back';
    await uploaded();
    const named = await this.#rename(temporary, name, { replaces, bytes: file.bytes, refused });
    return named && !isReadBack ? 'not_read_back' : named ? 'put' : 'taken';
  }

  /** The folders in a name are made; whether they are there shows when the file is opened. */
  async #makeFolders(names: readonly string[]): Promise<void> {
    for (const name of new Set(names)) {
      const parts = name.split('/').slice(0, -1);
      for (let count = 1; count <= parts.length; count += 1) {
        const path = this.#path(parts.slice(0, count).join('/'));
        await this.#session
          .call((done) => this.#session.sftp.mkdir(path, done))
          .catch((error) => {
            if (!isAnswer(error)) throw error;
          });
      }
    }
  }

  /** @returns undefined if the name is taken */
  async #create(name: string, isNew: boolean): Promise<Buffer | undefined> {
    const path = this.#path(name);
    try {
      return await this.#session.call<Buffer>((done) =>
        this.#session.sftp.open(path, isNew ? 'wx' : 'w', { mode: this.#mode }, done),
      );
    } catch (error) {
      if (!isAnswer(error)) throw error;
      const existingFile = isNew ? await this.find(name) : undefined;
      if (existingFile !== undefined && existingFile !== 'unknown') return undefined;
      throw await this.#explained(error, name);
    }
  }

  /** @returns whether the size was read back */
  async #write(handle: Buffer, { local, file, name }: PutTask): Promise<boolean> {
    const source = await open(local, 'r');
    try {
      await this.#pump(source, handle, file.bytes);
    } finally {
      await source.close();
    }
    const { sftp } = this.#session;
    const size = await this.#session
      .call<Stats>((done) => sftp.fstat(handle, done))
      .then((stats) => stats.size)
      .catch((error) => {
        if (!isAnswer(error)) throw error;
        return undefined;
      });
    await this.#session.call((done) => sftp.close(handle, done));
    if (size !== undefined && size !== file.bytes)
      throw loadRefused(`only ${size} of ${file.bytes} bytes of "${name}" arrived`, {
        hint: 'is the disk of the server full?',
      });
    return size !== undefined;
  }

  async #pump(source: FileHandle, handle: Buffer, bytes: number): Promise<void> {
    const { sftp } = this.#session;
    let at = 0;
    const worker = async () => {
      while (at < bytes) {
        const position = at;
        const length = Math.min(requestBytes, bytes - position);
        at += length;
        const buffer = Buffer.alloc(length);
        const { bytesRead } = await source.read(buffer, 0, length, position);
        if (bytesRead < length) throw new Error('a planned file became shorter while it was sent');
        await this.#session.call((done) => sftp.write(handle, buffer, 0, length, position, done));
      }
    };
    const workers = Array.from({ length: requestsAtOnce }, worker);
    for (const running of workers) running.catch(() => undefined);
    await Promise.all(workers);
  }

  /** @returns whether the file has its name now; false if something else has it */
  async #rename(
    from: string,
    to: string,
    { replaces, bytes, refused }: Pick<PutTask, 'replaces' | 'refused'> & { readonly bytes: number },
  ): Promise<boolean> {
    const { sftp } = this.#session;
    const [source, target] = [this.#path(from), this.#path(to)];
    try {
      await this.#session.call((done) => sftp.rename(source, target, done));
      return true;
    } catch (error) {
      if (!isAnswer(error)) throw error;
      const existingFile = await this.find(to);
      const isThere = existingFile !== undefined && existingFile !== 'unknown';
      if (isThere && existingFile.bytes === bytes && (await this.find(from)) === undefined) return true;
      const mayReplace = replaces && existingFile !== undefined;
      if (mayReplace && (await this.#replace(source, target, codeOf(error) !== denied))) return true;
      const isTaken = isThere && !replaces;
      if (!isTaken) await refused();
      await this.#removeQuietly(from);
      if (isTaken) return false;
      const taken = existingFile === 'unknown' ? 'if a file has the name already, move it away; else ' : '';
      throw permissionMissing(`the server does not let cdsync rename "${from}" to "${to}"`, {
        hint: `${taken}use \`upload: direct\`, or \`temporary\` with a folder from which it allows that; nothing new has the final name`,
        cause: error,
      });
    }
  }

  /**
   * Over a file of cdsync's own; servers without the extension need it removed first.
   * @param mayRemove false if the server may forbid each rename: then the old file must stay
   * @returns whether the server allowed it
   */
  async #replace(source: string, target: string, mayRemove: boolean): Promise<boolean> {
    const { sftp } = this.#session;
    const isAllowed = async (start: (done: (error?: Error | null) => void) => void) => {
      try {
        await this.#session.call(start);
        return true;
      } catch (error) {
        if (error instanceof CdsyncError) throw error;
        return false;
      }
    };
    // It throws where the server does not offer it.
    if (await isAllowed((done) => sftp.ext_openssh_rename(source, target, done))) return true;
    if (!mayRemove || !(await isAllowed((done) => sftp.unlink(target, done)))) return false;
    return isAllowed((done) => sftp.rename(source, target, done));
  }

  async #removeQuietly(name: string): Promise<void> {
    await this.#session.call((done) => this.#session.sftp.unlink(this.#path(name), done)).catch(() => undefined);
  }

  async remove(name: string): Promise<boolean> {
    try {
      await this.#session.call((done) => this.#session.sftp.unlink(this.#path(name), done));
      return true;
    } catch (error) {
      if (!isAnswer(error)) throw error;
      if (codeOf(error) === missing) return false;
      throw permissionMissing(`the server does not let cdsync remove "${name}"`, { cause: error });
    }
  }

  /** The meaning of a server's response: one code means a full disk, a name that is taken, or a folder. */
  async #explained(error: unknown, name: string): Promise<CdsyncError> {
    const code = codeOf(error);
    const shown = this.#root === '' ? '/' : this.#root;
    if (code === missing)
      return loadRefused(`the server has no folder for "${name}" below ${shown}`, {
        hint: 'check the path in `url`; a folder in `file` must be there if the server lets no client make it',
        cause: error,
      });
    if (code === denied)
      return permissionMissing(`the server does not let cdsync write "${name}" below ${shown}`, {
        hint: 'ask the operator for the right to write there',
        cause: error,
      });
    const isFull = await this.#isFull();
    if (code === failure && isFull)
      return loadRefused(`there is no space left on the server for "${name}"`, {
        hint: 'ask the operator to free some space',
        cause: error,
      });
    const why = code === unsupported ? 'does not support that' : 'does not say why';
    return loadRefused(`the server refuses to write "${name}", and ${why}`, {
      hint: 'is the name taken, is it a folder, is the disk or a quota full?',
      cause: error,
    });
  }

  async #isFull(): Promise<boolean> {
    try {
      const { sftp } = this.#session;
      const space = await this.#session.call<{ f_bavail: number | bigint }>((done) =>
        sftp.ext_openssh_statvfs(this.#root === '' ? '/' : this.#root, done as never),
      );
      return Number(space.f_bavail) < 16;
    } catch {
      return false;
    }
  }

  async check(): Promise<DestinationCheck> {
    const { host, shown } = this.#session;
    const reached = `${host}, which shows ${shown}`;
    const untried = 'writing is tested by the first file';
    const path = this.#root === '' ? '/' : this.#root;
    try {
      const stats = await this.#stat(path);
      if (!stats.isDirectory())
        throw loadRefused(`${path} is not a folder of ${host}`, { hint: 'correct the path in `url`' });
      return { reached, lacks: [], untried };
    } catch (error) {
      if (!isAnswer(error)) throw error;
      if (codeOf(error) === missing)
        throw loadRefused(`${host} has no folder ${path}`, { hint: 'correct the path in `url`', cause: error });
      return { reached: `${reached}, and does not let anyone look`, lacks: [], untried };
    }
  }

  close(): void {
    this.#session.close();
  }
}

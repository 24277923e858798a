import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  CdsyncError,
  type DestinationCheck,
  type FilePlace,
  type HandedOver,
  type HandOver,
  type TemporaryPlace,
  type WrittenFile,
} from '../../src/sdk/index.js';
import { companionNames, type ExportOptions, rendered, temporaryName } from './names.js';

/** A file at a place. */
export interface FoundFile {
  readonly bytes: number;
  /** Undefined if the place does not say. */
  readonly md5?: string | undefined;
  /** How many names it has, at a place that gives a file its final name before it takes the temporary one away. */
  readonly links?: number;
  /** Undefined if the place does not say. */
  sha256?(): Promise<string>;
}

/** A file by its bytes. */
type SentFile = WrittenFile & { readonly md5?: string | undefined };

export interface PutTask {
  /** The bytes on this machine. */
  readonly local: string;
  readonly name: string;
  readonly file: SentFile;
  /** The name while it is uploaded; undefined: its own. */
  readonly temporary: string | undefined;
  /** Whether a file of this name may be replaced. */
  readonly replaces: boolean;
  uploaded(): Promise<void>;
  /** Called before an error, if nothing of this try can be under the name. */
  refused(): Promise<void>;
}

/** The operations of a kind of place. */
export interface Store {
  /** The file of a name; undefined if there is none; `unknown` if the place does not let anyone look. */
  find(name: string): Promise<FoundFile | undefined | 'unknown'>;
  /**
   * Puts a file there, whole or not at all.
   * @returns whether its size was read back; `taken` if the name has a file that may not be replaced
   */
  put(task: PutTask): Promise<'put' | 'not_read_back' | 'taken'>;
  /** @returns whether it was there */
  remove(name: string): Promise<boolean>;
  check(): Promise<DestinationCheck>;
  close(): Promise<void> | void;
}

function fileExists(name: string): CdsyncError {
  return new CdsyncError(`there is a file "${name}" already, which cdsync did not write`, {
    code: 'file_exists',
    hint: 'move it away, choose another name with `file`, or allow it with `overwrite: true`; nothing was replaced',
  });
}

/** Whether a place can distinguish a file from another of the same size. */
function hasHash(existingFile: FoundFile, { md5 }: SentFile): boolean {
  return existingFile.sha256 !== undefined || (existingFile.md5 !== undefined && md5 !== undefined);
}

async function isSame(existingFile: FoundFile, sentFile: SentFile): Promise<boolean> {
  if (
    existingFile.bytes !== sentFile.bytes ||
    (existingFile.md5 ?? sentFile.md5) !== (sentFile.md5 ?? existingFile.md5)
  )
    return false;
  return existingFile.sha256 === undefined || (await existingFile.sha256()) === sentFile.sha256;
}

async function md5OfFile(path: string): Promise<string> {
  const hash = createHash('md5');
  for await (const chunk of createReadStream(path, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer);
  return hash.digest('hex');
}

/** A file that is beside another: small, and made when it is handed over. */
interface Companion {
  readonly name: string;
  readonly text: string;
}

/** Hands files over: never over a file of others, then the files beside them. */
export class ExportPlace implements FilePlace {
  readonly #store: Store;
  readonly #options: ExportOptions;
  readonly #folder: string;
  readonly #notice: (line: string) => void;

  /** @param folder for small files */
  constructor(store: Store, options: ExportOptions, folder: string, notice: (line: string) => void) {
    this.#store = store;
    this.#options = options;
    this.#folder = folder;
    this.#notice = notice;
  }

  async handOver(task: HandOver): Promise<HandedOver> {
    const { file, path, ...rest } = task;
    const { replaceable, isTried } = rest;
    const md5 = this.#needsMd5 ? await md5OfFile(path) : undefined;
    let isReadBack = await this.#put({ ...file, md5 }, path, rest);
    const companions = this.#companions(task, md5);
    for (const { name, text } of companions) {
      const local = join(this.#folder, 'companion');
      await writeFile(local, text, { mode: 0o600 });
      const hash = (kind: string) => createHash(kind).update(text).digest('hex');
      const sentFile = { name, bytes: Buffer.byteLength(text), sha256: hash('sha256'), md5: hash('md5') };
      // Beside a file that was handed over before, such a name is its own too; a mark may have one name for all files.
      const isOwn = replaceable.length > 0 || task.companions.includes(name);
      isReadBack =
        (await this.#put(sentFile, local, {
          replaceable: [],
          isTried,
          isOwn,
          uploadedTo: undefined,
          uploaded: async () => {},
          refused: async () => {},
          begin: () => task.beside(name),
        })) && isReadBack;
    }
    return { companions: companions.map(({ name }) => name), isReadBack };
  }

  /** Only Azure compares it, and hashing takes as long as writing. */
  get #needsMd5(): boolean {
    const { url, checksum, done } = this.#options;
    return url?.startsWith('az:') || checksum === 'md5' || (typeof done === 'object' && /\bmd5\b/.test(done.body));
  }

  #companions({ file, properties }: HandOver, md5: string | undefined): Companion[] {
    const { checksum, done } = this.#options;
    const names = companionNames(this.#options, file.name, properties);
    const listed: Companion[] = [];
    const base = file.name.slice(file.name.lastIndexOf('/') + 1);
    if (checksum !== 'none' && names.checksum !== undefined)
      listed.push({ name: names.checksum, text: `${checksum === 'md5' ? md5 : file.sha256}  ${base}\n` });
    if (names.done === undefined) return listed;
    const { rows, bytes, sha256 } = file;
    const body = typeof done === 'object' ? done.body : '';
    const text = rendered(body, this.#options, { ...properties, file: base, rows, bytes, sha256, md5 });
    return [...listed, { name: names.done, text }];
  }

  /** @returns whether its size was read back */
  async #put(
    file: SentFile,
    local: string,
    {
      replaceable,
      isTried,
      isOwn = false,
      begin,
      uploadedTo,
      ...rest
    }: Omit<HandOver, 'file' | 'path' | 'properties' | 'companions' | 'beside'> & {
      readonly isOwn?: boolean;
      begin?(): Promise<void>;
    },
  ): Promise<boolean> {
    const { overwrite, upload } = this.#options;
    const existingFile = await this.#store.find(file.name);
    let replaces = overwrite || isOwn;
    if (existingFile === 'unknown') replaces ||= isTried || replaceable.length > 0;
    else if (existingFile !== undefined) {
      // One that was made again may be as long as the one before.
      const isOther = isOwn || replaceable.some(({ bytes, sha256 }) => bytes === file.bytes && sha256 !== file.sha256);
      const isClear = !isOther || hasHash(existingFile, file);
      if ((isTried || replaceable.length > 0) && isClear && (await isSame(existingFile, file))) return true;
      for (const sentFile of replaceable) replaces ||= await isSame(existingFile, sentFile);
      // A torn file of an earlier try has the final name.
      replaces ||= isTried && upload === 'direct' && existingFile.bytes < file.bytes;
      if (!replaces) {
        await rest.refused();
        throw fileExists(file.name);
      }
    } else if (isTried && (await this.#wasTaken(file, uploadedTo))) return true;
    await begin?.();
    const temporary = temporaryName(this.#options, file.name);
    // From here on the whole bytes of the earlier try go: if this one fails, no partner has taken them.
    if (uploadedTo !== undefined) await rest.refused();
    if (uploadedTo?.place === this.#address && uploadedTo.name !== temporary) await this.#store.remove(uploadedTo.name);
    const to = { name: temporary ?? file.name, place: this.#address };
    const task = { local, name: file.name, file, temporary, replaces, ...rest, uploaded: () => rest.uploaded(to) };
    const put = await this.#store.put(task);
    if (put !== 'taken') return put === 'put';
    // The refusal may be of a second try, after the response to a first and successful one was lost.
    const there = existingFile === undefined ? await this.#store.find(file.name) : existingFile;
    if (there !== undefined && there !== 'unknown' && (await isSame(there, file))) return true;
    await rest.refused();
    throw fileExists(file.name);
  }

  /** Whether a file that was whole under its temporary name was renamed, and taken away. */
  async #wasTaken({ name }: WrittenFile, uploadedTo: TemporaryPlace | undefined): Promise<boolean> {
    if (uploadedTo === undefined || uploadedTo.place !== this.#address || uploadedTo.name === name) return false;
    const left = await this.#store.find(uploadedTo.name);
    if (left === undefined || left === 'unknown' || left.links === undefined) return left === undefined;
    // It had both names when the process was killed, and the receiver has moved the final one within the disk.
    if (left.links > 1) return this.#store.remove(uploadedTo.name);
    // Whether it had both, and the receiver removed the final one, nothing shows: a file must not be lost.
    this.#notice(`"${name}" is handed over again after a try that was cut short: the receiver may have taken it then`);
    return false;
  }

  get #address(): string {
    const { url, path } = this.#options;
    return createHash('sha256')
      .update(url ?? path ?? '')
      .digest('hex')
      .slice(0, 16);
  }

  async remove(name: string): Promise<boolean> {
    return this.#store.remove(name);
  }

  close(): Promise<void> | void {
    return this.#store.close();
  }
}

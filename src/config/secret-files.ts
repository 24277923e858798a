import { isUtf8 } from 'node:buffer';
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Secret } from '../core/secret.js';

/** The text of a file that a configuration names, or why it has none, in words. */
type FileReading = { readonly text: string; readonly isReadableByAll: boolean } | { readonly fault: string };

/** No secret is larger; a private key has some 4 kB. */
const mostBytes = 65_536;

const words: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'may not be read by this user',
  EPERM: 'may not be read by this user',
  ELOOP: 'is a link that leads to itself',
  ENAMETOOLONG: 'has a name that is too long',
};

function read(path: string): FileReading {
  // Without waiting: the other end of a pipe may never come.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    if (stats.isDirectory()) return { fault: 'is a folder' };
    if (!stats.isFile()) return { fault: 'is no file' };
    if (stats.size > mostBytes) return { fault: `has more than ${mostBytes} bytes` };
    const bytes = readFileSync(file);
    if (!isUtf8(bytes)) return { fault: 'is not UTF-8' };
    // Editors may put U+FEFF, a mark of the encoding, at the start.
    const text = bytes
      .toString('utf8')
      .replace(/^\uFEFF/, '')
      .replace(/\r?\n$/, '');
    if (text === '') return { fault: 'is empty' };
    return { text, isReadableByAll: (stats.mode & 0o004) !== 0 };
  } finally {
    closeSync(file);
  }
}

/** The files that `${file:PATH}` names. Each is read once; what they hold is secret. */
export class SecretFiles {
  readonly #folder: string;
  readonly #read = new Map<string, FileReading>();

  /** @param folder that of the configuration: paths are relative to it */
  constructor(folder: string) {
    this.#folder = folder;
  }

  read(path: string): FileReading {
    const known = this.#read.get(path);
    if (known !== undefined) return known;
    const reading = this.#tried(path);
    this.#read.set(path, reading);
    return reading;
  }

  #tried(path: string): FileReading {
    if (path.includes('\0')) return { fault: 'has a name that no file can have' };
    try {
      return read(resolve(this.#folder, path));
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      return { fault: words[code] ?? `cannot be read (${code})` };
    }
  }

  /** Everything that was read. */
  get secrets(): readonly Secret[] {
    return [...this.#read.values()].flatMap((reading) => ('text' in reading ? [new Secret(reading.text)] : []));
  }
}

import { isUtf8 } from 'node:buffer';
import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Secret } from '../core/secret.js';

/** The text of a file that a configuration names, or why it has none, in words. */
type FileReading = { readonly text: string; readonly isReadableByAll: boolean } | { readonly fault: string };

/** No secret is larger; a private key has some 4 kB. */
const maxBytes = 65_536;

const words: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'may not be read by this user',
  EPERM: 'may not be read by this user',
  ELOOP: 'is a link to itself',
  ENAMETOOLONG: 'has a name that is too long',
};

function read(path: string): FileReading {
  // Without waiting: the other end of a pipe may never come.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stats = fstatSync(file);
    if (stats.isDirectory()) return { fault: 'is a folder' };
    if (!stats.isFile()) return { fault: 'is not a file' };
    if (stats.size > maxBytes) return { fault: `has more than ${maxBytes} bytes` };
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

/** The files that `${file:PATH}` names. Each is read once; their contents are secret. */
export class SecretFiles {
  readonly #folder: string;
  readonly #read = new Map<string, FileReading>();

  /** @param folder that of the configuration: paths are relative to it */
  constructor(folder: string) {
    this.#folder = folder;
  }

  read(path: string): FileReading {
    const earlier = this.#read.get(path);
    if (earlier !== undefined) return earlier;
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

/** The variables that a configuration may name: usually `process.env`, with those of an env file over them. */
export type Variables = Readonly<Record<string, string | undefined>>;

/** A text after replacement. */
interface Expansion {
  readonly text: string;
  /** Names that the text uses, replaced or not. */
  readonly used: readonly string[];
  /** Names that have neither a value nor a default. */
  readonly missing: readonly string[];
  /** In words: each file that could not be read. */
  readonly unread: readonly string[];
  /** Names of files that others on the machine can read too. */
  readonly exposed: readonly string[];
  /** In words: each variable that is not well formed. */
  readonly faults: readonly string[];
  /** Whether the text was one `${NAME}` and nothing else. */
  readonly alone: boolean;
}

const reference = /\$\$|\$\{([^}]*)(\}?)/g;
const ofFile = /^file:(.+)$/s;
const body = /^([A-Za-z_][A-Za-z0-9_]*)(?::-([\s\S]*))?$/;

function value(env: Variables, name: string): string | undefined {
  return Object.hasOwn(env, name) ? env[name] : undefined;
}

/** What `${…}` may name. Without `files`, it may name no file. */
export interface Replacements {
  readonly env: Variables;
  readonly files?: Pick<SecretFiles, 'read'> | undefined;
  /** How a value is written in a longer text. Default: as it is. */
  readonly literal?: ((value: string) => string) | undefined;
}

/**
 * Replaces `${file:PATH}` with the text of a file, and `${NAME}` and `${NAME:-default}` (the default also replaces an empty value); `$$` becomes `$`. A `$` before
 * anything else stays. Variables in the value of a variable or in a file are not replaced.
 */
export function expand(source: string, { env, files, literal = (value) => value }: Replacements): Expansion {
  const used: string[] = [];
  const missing: string[] = [];
  const faults: string[] = [];
  const unread: string[] = [];
  const exposed: string[] = [];
  const textOf = (path: string): string => {
    const reading = files?.read(path) ?? { fault: 'cannot be named here' };
    used.push(`file:${path}`);
    if ('fault' in reading) unread.push(`the file ${path} ${reading.fault}`);
    else if (reading.isReadableByAll) exposed.push(path);
    return 'fault' in reading ? '' : literal(reading.text);
  };
  let alone = false;
  const text = source.replace(reference, (whole: string, inside: string | undefined, close: string | undefined) => {
    if (whole === '$$') return '$';
    const path = close === '}' ? ofFile.exec(inside as string)?.[1] : undefined;
    if (path !== undefined) return textOf(path);
    const parts = close === '}' ? body.exec(inside as string) : null;
    if (parts === null) {
      faults.push(close === '}' ? 'this is not a variable' : 'a variable is not closed by "}"');
      return '';
    }
    const [, name, fallback] = parts as unknown as [string, string, string | undefined];
    if (fallback?.includes(`\${`)) faults.push('a default may not hold another variable');
    used.push(name);
    if (whole.length === source.length) alone = true;
    const variable = value(env, name);
    const text = whole.length === source.length ? (part: string) => part : literal;
    if (fallback !== undefined && (variable === undefined || variable === ''))
      return text(fallback.replaceAll('$$', () => '$'));
    if (variable === undefined) missing.push(name);
    return text(variable ?? '');
  });
  return { text, used, missing, unread, exposed, faults, alone };
}

import type { SecretFiles } from './secret-files.js';

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
}

/**
 * Replaces `${file:PATH}` with the text of a file, and `${NAME}` and `${NAME:-default}` (the default also stands in for an empty value); `$$` becomes `$`. A `$` before
 * anything else stays. Variables in the value of a variable or in a file are not replaced.
 */
export function expand(source: string, { env, files }: Replacements): Expansion {
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
    return 'fault' in reading ? '' : reading.text;
  };
  let alone = false;
  const text = source.replace(reference, (whole: string, inside: string | undefined, close: string | undefined) => {
    if (whole === '$$') return '$';
    const path = close === '}' ? ofFile.exec(inside as string)?.[1] : undefined;
    if (path !== undefined) return textOf(path);
    const parts = close === '}' ? body.exec(inside as string) : null;
    if (parts === null) {
      faults.push(close === '}' ? 'this is no variable' : 'a variable is not closed by "}"');
      return '';
    }
    const [, name, fallback] = parts as unknown as [string, string, string | undefined];
    if (fallback?.includes(`\${`)) faults.push('a default may not hold another variable');
    used.push(name);
    if (whole.length === source.length) alone = true;
    const given = value(env, name);
    if (fallback !== undefined && (given === undefined || given === '')) return fallback.replaceAll('$$', () => '$');
    if (given === undefined) missing.push(name);
    return given ?? '';
  });
  return { text, used, missing, unread, exposed, faults, alone };
}

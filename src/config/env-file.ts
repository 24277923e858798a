import { readFile, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CdsyncError } from '../core/errors.js';
import { decodeText } from './decode-text.js';
import { ConfigError, type ConfigProblem, shownPath } from './problem.js';

const lead = /^[ \t]*(?:export[ \t]+)?/;
const assignment = /^([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*/;
const escapes: Record<string, string> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\', $: '$' };

const invalid = { code: 'env_file_invalid', hint: 'correct the env file' } as const;

interface Taken {
  readonly value: string;
  /** What follows the value. */
  readonly end: number;
}

/** The value that begins at `start`; undefined where its quote is not closed. */
function takeValue(text: string, start: number): Taken | undefined {
  const quote = text[start];
  if (quote !== '"' && quote !== "'") {
    const line = /^[^\n]*/.exec(text.slice(start))?.[0] ?? '';
    // A `#` inside a word is part of it, for secrets may contain one.
    return { value: line.replace(/(^|[ \t])#.*$/, '').trim(), end: start + line.length };
  }
  const closed = quote === '"' ? /^"((?:[^"\\]|\\[\s\S])*)"/ : /^'([^']*)'/;
  const match = closed.exec(text.slice(start));
  if (match === null) return undefined;
  const inside = match[1] as string;
  const value =
    quote === "'" ? inside : inside.replace(/\\([\s\S])/g, (whole, letter: string) => escapes[letter] ?? whole);
  return { value, end: start + match[0].length };
}

function endOfLine(text: string, offset: number): number {
  const end = text.indexOf('\n', offset);
  return end < 0 ? text.length : end;
}

interface Line {
  readonly name?: string;
  readonly value?: string;
  readonly fault?: { readonly offset: number; readonly message: string };
  /** Where the next line begins. */
  readonly next: number;
}

/** Takes one line, or all the lines that a quoted value spans. */
function takeLine(text: string, at: number): Line {
  const lineEnd = endOfLine(text, at);
  const start = at + (lead.exec(text.slice(at, lineEnd))?.[0] ?? '').length;
  const content = text.slice(start, lineEnd);
  if (content === '' || content.startsWith('#')) return { next: lineEnd + 1 };
  const match = assignment.exec(content);
  if (match === null) {
    const message = 'not a NAME=value line; a name consists of letters, digits and _';
    return { fault: { offset: start, message }, next: lineEnd + 1 };
  }
  const name = match[1] as string;
  const offset = start + match[0].length;
  const taken = takeValue(text, offset);
  if (taken === undefined)
    return { fault: { offset, message: `the quote of ${name} is not closed` }, next: text.length };
  const next = endOfLine(text, taken.end) + 1;
  if (/^[ \t]*(?:#.*)?$/.test(text.slice(taken.end, next - 1))) return { name, value: taken.value, next };
  return { fault: { offset: taken.end, message: `text follows the quoted value of ${name}` }, next };
}

/**
 * Reads `KEY=VALUE` lines. `#` begins a comment; `export ` may precede the name. A value in '…' stays as it is; in
 * "…", `\n`, `\r`, `\t`, `\"`, `\\` and `\$` are replaced. Both may span lines. If a name occurs twice, the later one holds.
 *
 * @throws ConfigError `env_file_invalid` with every wrong line; no message has a value.
 */
export function parseEnvText(text: string, shownFile: string): Record<string, string> {
  const source = text.replace(/^\uFEFF/, '').replaceAll('\r\n', '\n');
  const variables = new Map<string, string>();
  const problems: ConfigProblem[] = [];
  // Counted on from the last problem, so that a file of nothing but mistakes is read once.
  let [line, lineStart] = [1, 0];
  for (let at = 0; at < source.length; ) {
    const { name, value, fault, next } = takeLine(source, at);
    if (name !== undefined && value !== undefined) variables.set(name, value);
    if (fault !== undefined) {
      for (
        let end = source.indexOf('\n', lineStart);
        end >= 0 && end < fault.offset;
        end = source.indexOf('\n', lineStart)
      )
        [line, lineStart] = [line + 1, end + 1];
      problems.push({ file: shownFile, line, column: fault.offset - lineStart + 1, path: '', message: fault.message });
    }
    at = next;
  }
  if (problems.length > 0) throw new ConfigError(problems, invalid);
  return Object.fromEntries(variables);
}

/**
 * The variables of an env file.
 *
 * @throws ConfigError `env_file_invalid`, or CdsyncError `env_file_unreadable`.
 */
export async function readEnvFile(path: string, cwd: string = process.cwd()): Promise<Record<string, string>> {
  const file = resolve(cwd, path);
  let bytes: Buffer;
  try {
    bytes = await readFile(file);
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : 'it cannot be read';
    throw new CdsyncError(`the env file ${path} was not read: ${reason}`, {
      code: 'env_file_unreadable',
      hint: `--env-file was looked for at ${file}`,
      cause,
    });
  }
  const shown = shownPath(file, cwd);
  return parseEnvText(decodeText(bytes, shown, invalid), shown);
}

/** Whether every user of this machine can read a file. */
export async function isOpenToAll(path: string): Promise<boolean> {
  const stats = await stat(path).catch(() => undefined);
  return stats?.isFile() === true && (stats.mode & 0o004) !== 0;
}

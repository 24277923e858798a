import { relative } from 'node:path';
import type { ErrorCode } from '../core/error-codes.js';
import { CdsyncError } from '../core/errors.js';
import type { Position } from './yaml-document.js';

/** A fault of a part of a configuration. Has no secret and no value of a variable. */
export interface ProblemDetails {
  /** In a few words. */
  readonly message: string;
  readonly found?: string | undefined;
  readonly allowed?: string | undefined;
  /** The known key or value that is most like the one found. */
  readonly nearest?: string | undefined;
  /** The variables without a value that cause it. */
  readonly unset?: readonly string[];
  /** Whether only a file beside the configuration is missing. */
  readonly isUnread?: boolean;
  /** Default: `config_invalid`. */
  readonly code?: 'template_invalid' | undefined;
}

/** A fault, and its place in the file. */
export interface ConfigProblem extends ProblemDetails {
  /** As messages show it: relative to the working directory if that is shorter. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
  /** For example `jobs.nightly.streams[0].index`; empty for the file as a whole. */
  readonly path: string;
}

/** One line: `cdsync.yaml:12:7  jobs.nightly.streams[0].indx: unknown key; did you mean "index"?  allowed: …`. */
export function formatProblem(problem: ConfigProblem): string {
  const { file, line, column } = problem;
  return `${file}:${line}:${column}  ${describeProblem(problem)}`;
}

/** The same without its place in the file. */
export function describeProblem({ path, message, found, allowed, nearest }: Omit<ConfigProblem, 'file'>): string {
  let text = `${path === '' ? '' : `${path}: `}${message}`;
  if (found !== undefined) text += `, found ${found}`;
  if (nearest !== undefined) text += `; did you mean "${nearest}"?`;
  if (allowed !== undefined) text += `${nearest === undefined ? ';' : ' '} allowed: ${allowed}`;
  return text;
}

/** All the problems of a configuration at once; the message has one line for each. */
export class ConfigError extends CdsyncError {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[], details: { code?: ErrorCode; hint?: string; cause?: unknown } = {}) {
    const sorted = inOrder(problems);
    super(sorted.map(formatProblem).join('\n'), {
      code:
        details.code ??
        (problems.every(({ code }) => code !== undefined) ? problems[0]?.code : undefined) ??
        'config_invalid',
      hint: details.hint ?? setThem(problems),
      cause: details.cause,
    });
    this.name = 'ConfigError';
    this.problems = sorted;
  }

  /** The same error of a command that was given this env file. */
  withEnvFile(envFile: string): ConfigError {
    const hint = setThem(this.problems, envFile);
    if (hint === undefined) return this;
    return new ConfigError(this.problems, { code: this.code as ErrorCode, hint, cause: this.cause });
  }
}

/** How to set the variables that are missing, in the env file if one was given; undefined without any. */
function setThem(problems: readonly ConfigProblem[], envFile?: string): string | undefined {
  const names = [...new Set(problems.flatMap(({ unset = [] }) => unset))];
  if (names.length === 0) return undefined;
  const them = names.length === 1 ? 'it' : 'them';
  const values = names.map((name) => `${name}=…`).join(' ');
  return envFile === undefined
    ? `set ${them}: export ${values}, or --env-file .env`
    : `set ${them} in ${envFile}: ${values}`;
}

function inOrder(problems: readonly ConfigProblem[]): ConfigProblem[] {
  // The reader meets a value from an alias or from `defaults:` once for each use.
  const distinct = new Map(problems.map((problem) => [formatProblem(problem), problem]));
  return [...distinct.values()].sort((a, b) => a.line - b.line || a.column - b.column);
}

/** Warns of a file with secrets. @param file as messages name it */
export function openToAll(file: string): string {
  return `every user of this machine can read the file ${file}; chmod 600 closes it`;
}

/** A file's name for messages: relative to `directory` if that is shorter. */
export function shownPath(file: string, directory: string): string {
  const near = relative(directory, file);
  return near !== '' && near.length < file.length ? near : file;
}

/** A path as text: `jobs.nightly.streams[0]`. A key that is no plain word is quoted. */
function pathText(path: readonly (string | number)[]): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (/^[\w-]{1,64}$/.test(step)) text += text === '' ? step : `.${step}`;
    else text += `[${quoted(step)}]`;
  }
  return text;
}

/** Text for a message: quoted, on one line, at most 60 characters. */
export function quoted(text: string): string {
  const short = text.length > 60 ? `${text.slice(0, 57)}…` : text;
  return JSON.stringify(short.toWellFormed());
}

export type Path = readonly (string | number)[];

/** A part of the configuration: its path, and its offset in the text. */
export interface SourceLocation {
  readonly path: Path;
  readonly offset: number;
}

/** Collects the problems and the warnings of one file. */
export class ConfigProblems {
  readonly problems: ConfigProblem[] = [];
  readonly warnings: string[] = [];
  readonly #file: string;
  readonly #position: (offset: number) => Position;
  readonly #text: string;
  readonly #offsets = new Map<string, number>();

  /**
   * @param file as messages show it
   * @param text that the offsets are in
   */
  constructor(file: string, position: (offset: number) => Position, text = '') {
    this.#file = file;
    this.#position = position;
    this.#text = text;
  }

  /** Notes where a part is, for problems that are found later. */
  visit({ path, offset }: SourceLocation): void {
    this.#offsets.set(pathText(path), offset);
  }

  problem({ path, offset }: SourceLocation, fault: ProblemDetails): ConfigProblem {
    return { file: this.#file, ...this.#position(offset), path: pathText(path), ...fault };
  }

  refuse(site: SourceLocation, fault: ProblemDetails): undefined {
    this.problems.push(this.problem(site, fault));
    return undefined;
  }

  /** Refuses a part by its path alone; if the file does not have it, the message shows the nearest part above it. */
  reportAt(path: Path, fault: ProblemDetails, placeholder?: number): void {
    this.refuse(this.site(path, placeholder), fault);
  }

  /** Where a part is. @param placeholder which `{{` or `{%` of its text is meant, from 0 */
  site(path: Path, placeholder?: number): SourceLocation {
    const offset = this.#offset(path);
    if (placeholder === undefined || this.#text[offset] === '*') return { path, offset };
    const openings = this.#text.slice(offset).matchAll(/\{\{|\{%/g);
    for (const { index } of openings) if (placeholder-- === 0) return { path, offset: offset + index };
    return { path, offset };
  }

  /** The same as text: `cdsync.yaml:12:7  jobs.nightly.destinations[0].body`. */
  placeOf(path: Path, placeholder?: number): string {
    const { file, line, column, path: shown } = this.problem(this.site(path, placeholder), { message: '' });
    return `${file}:${line}:${column}  ${shown}`;
  }

  /** Whether anything at or below a path has been refused. */
  hasProblemBelow(path: Path): boolean {
    const above = pathText(path);
    return this.problems.some(({ path: below }) => {
      return below === above || below.startsWith(`${above}.`) || below.startsWith(`${above}[`);
    });
  }

  warn(path: Path, message: string): void {
    const { line, column } = this.#position(this.#offset(path));
    this.warnings.push(`${this.#file}:${line}:${column}  ${pathText(path)}: ${message}`);
  }

  #offset(path: Path): number {
    for (let length = path.length; length > 0; length -= 1) {
      const offset = this.#offsets.get(pathText(path.slice(0, length)));
      if (offset !== undefined) return offset;
    }
    return 0;
  }
}

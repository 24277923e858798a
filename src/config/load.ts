import { isUtf8 } from 'node:buffer';
import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/suggestions.js';
import type { Config, LocalConfig } from './config.js';
import { loadConnectors } from './load-connectors.js';
import { type Linted, type LintOptions, lintConfig, type Needs, type ParseOptions, parseConfig } from './parse.js';
import { ConfigError, shownPath } from './problem.js';

/**
 * Reads the configuration in a `.yaml`, `.yml` or `.json` file.
 *
 * @throws ConfigError (`config_invalid`) with everything that is wrong with it; CdsyncError `config_not_found`,
 * `config_unreadable` or `job_not_found`.
 */
export function loadConfig(
  path: string,
  options: ParseOptions & { needs: Needs & { service: false } },
): Promise<LocalConfig>;
export function loadConfig(path: string, options: ParseOptions): Promise<Config>;
export async function loadConfig(path: string, options: ParseOptions): Promise<LocalConfig | Config> {
  const { envFile } = options;
  if (envFile === undefined) return withConnectors(path, options, parseConfig);
  try {
    return { ...(await withConnectors(path, options, parseConfig)), envFile: resolve(envFile) };
  } catch (error) {
    throw error instanceof ConfigError ? error.withEnvFile(envFile) : error;
  }
}

/**
 * Checks a configuration file, and reads nothing else: its variables need not be set.
 * @throws what {@link loadConfig} throws
 */
export function lintFile(path: string, options: LintOptions): Promise<Linted> {
  return withConnectors(path, options, lintConfig);
}

/** Reads a file; again with the connectors that it names, if some are not known. */
async function withConnectors<R, O extends ParseOptions>(
  path: string,
  options: O,
  read: (text: string, file: string, options: O) => R,
): Promise<R> {
  const file = resolve(path);
  const bytes = await readBytes(file, path);
  const shown = shownPath(file, options.cwd ?? process.cwd());
  const text = decode(bytes, shown);
  const unknown = new Set<string>();
  try {
    return read(text, file, { ...options, unknownConnectors: unknown });
  } catch (error) {
    if (unknown.size === 0) throw error;
    return read(text, file, { ...options, connectors: await loadConnectors(unknown, file) });
  }
}

async function readBytes(file: string, path: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw await unreadable(error as NodeJS.ErrnoException, file, path);
  }
}

/** Where the file may be: a file of nearly this name in the same folder. */
async function notFoundHint(file: string, path: string): Promise<string> {
  const files = (await readdir(dirname(file)).catch(() => [])).filter((name) => /\.(ya?ml|json)$/.test(name));
  const stem = (name: string) => name.replace(/\.\w+\s*$/, '');
  const [like] = nearest(stem(basename(file)), files.map(stem), 1);
  const near = files.find((name) => stem(name) === like);
  if (near !== undefined && /\.(ya?ml|json)\s*$/i.test(path)) return `did you mean "${join(dirname(path), near)}"?`;
  return /^[a-z][a-z0-9_]*$/.test(path)
    ? `a job is chosen with an option: --job ${path}; the first argument is the configuration file`
    : 'name the file as the first argument, or run in the folder that holds cdsync.yaml';
}

async function unreadable(cause: NodeJS.ErrnoException, file: string, path: string): Promise<CdsyncError> {
  const details = { code: 'config_unreadable', cause } as const;
  if (cause.code === 'ENOENT' || cause.code === 'ENOTDIR') {
    return new CdsyncError(`there is no configuration file ${path} (looked for ${file})`, {
      ...details,
      code: 'config_not_found',
      hint: await notFoundHint(file, path),
    });
  }
  if (cause.code === 'EISDIR' && path.trim() === '')
    return new CdsyncError('the name of the configuration file is empty', {
      ...details,
      hint: 'leave it out for ./cdsync.yaml',
    });
  if (cause.code === 'EISDIR') {
    const hint = `name the file in it, for example ${path.replace(/(?<!\/)\/+$/, '')}/cdsync.yaml`;
    return new CdsyncError(`the configuration ${path} is a folder`, { ...details, hint });
  }
  const hint = 'check that the file may be read by this user';
  return new CdsyncError(`the configuration ${path} cannot be read: ${cause.code ?? 'unknown error'}`, {
    ...details,
    hint,
  });
}

function decode(bytes: Buffer, shown: string): string {
  if (isUtf8(bytes)) return bytes.toString('utf8');
  const utf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
  const message = utf16 ? 'the file is UTF-16; save it as UTF-8' : 'this is not UTF-8; save the file as UTF-8';
  throw new ConfigError([
    { file: shown, ...(utf16 ? { line: 1, column: 1 } : firstBadByte(bytes)), path: '', message },
  ]);
}

function firstBadByte(bytes: Buffer): { line: number; column: number } {
  let line = 1;
  for (let start = 0; ; line += 1) {
    const end = bytes.indexOf(0x0a, start);
    const content = bytes.subarray(start, end < 0 ? undefined : end);
    if (!isUtf8(content) || end < 0) {
      return { line, column: Math.max(content.toString('utf8').indexOf('\uFFFD'), 0) + 1 };
    }
    start = end + 1;
  }
}

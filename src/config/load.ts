import { readdir, readFile } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { ErrorCode } from '../core/error-codes.js';
import { CdsyncError } from '../core/errors.js';
import { nearest } from '../core/suggestions.js';
import type { Config, LocalConfig } from './config.js';
import { decodeText } from './decode-text.js';
import { builtInConnectors, loadConnectors } from './load-connectors.js';
import { type Linted, type LintOptions, lintConfig, type Needs, type ParseOptions, parseConfig } from './parse.js';
import { ConfigError, openToAll, shownPath } from './problem.js';

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
  if (envFile === undefined) return withFiles(await withConnectors(path, options, parseConfig));
  try {
    const config = await withFiles(await withConnectors(path, options, parseConfig));
    return {
      ...config,
      envFile: resolve(envFile),
      warnings: [...config.warnings, ...(await envFileWarnings(options))],
    };
  } catch (error) {
    throw error instanceof ConfigError ? error.withEnvFile(envFile) : error;
  }
}

/** @throws {CdsyncError} `config_invalid` if a file that a destination names is unfit */
async function withFiles<C extends LocalConfig>(config: C): Promise<C> {
  for (const { connector, options, place } of config.jobs.flatMap(({ destinations }) => destinations))
    await connector.checkFiles?.(options as never).catch((error: unknown) => {
      if (!(error instanceof CdsyncError)) throw error;
      const { hint, cause, causeQuotesValues } = error;
      const code = error.kind === 'configuration' ? (error.code as ErrorCode) : 'config_invalid';
      throw new CdsyncError(`${place([])}: ${error.message}`, { code, hint, cause, causeQuotesValues });
    });
  return config;
}

/**
 * Checks a configuration file, and reads nothing else: its variables need not be set.
 * @throws what {@link loadConfig} throws
 */
export async function lintFile(path: string, options: LintOptions): Promise<Linted> {
  const linted = await withConnectors(path, options, lintConfig);
  return { ...linted, warnings: [...linted.warnings, ...(await envFileWarnings(options))] };
}

async function envFileWarnings({ envFile, cwd = process.cwd() }: Pick<ParseOptions, 'envFile' | 'cwd'>) {
  if (envFile === undefined) return [];
  const { isOpenToAll } = await import('./env-file.js');
  if (!(await isOpenToAll(envFile))) return [];
  return [openToAll(shownPath(resolve(envFile), cwd))];
}

/** Reads a file with the connectors that come with cdsync and that it names; again with others, if there are others. */
async function withConnectors<R, O extends ParseOptions>(
  path: string,
  options: O,
  read: (text: string, file: string, options: O) => R,
): Promise<R> {
  const file = resolve(path);
  const bytes = await readBytes(file, path);
  const shown = shownPath(file, options.cwd ?? process.cwd());
  const text = decodeText(bytes, shown);
  const unknown = new Set<string>();
  try {
    const named = new Map([...(await builtInConnectors(text)), ...(options.connectors ?? [])]);
    return read(text, file, { ...options, connectors: named, unknownConnectors: unknown });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    // With all of them: an error names those that there are.
    const connectors = new Map([...(await builtInConnectors()), ...(options.connectors ?? [])]);
    const others = await loadConnectors(
      [...unknown].filter((word) => !connectors.has(word)),
      file,
    );
    return read(text, file, { ...options, connectors: new Map([...connectors, ...others]) });
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

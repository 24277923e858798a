import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { builtIn } from '../../connectors/built-in.js';
import type { Connector } from '../sdk/destination.js';

/** A connector that a configuration names by a file or a package, or the reason why it is not a connector. */
export type LoadedConnector = Connector | { readonly failure: string; readonly isMissing?: boolean };

function isConnector(value: unknown): value is Connector {
  const candidate = value as Partial<Connector> | undefined;
  return (
    typeof candidate?.name === 'string' &&
    (candidate.kind === 'tables' || candidate.kind === 'records' || candidate.kind === 'files') &&
    typeof candidate.open === 'function' &&
    typeof candidate.options === 'object' &&
    typeof candidate.capabilities === 'object'
  );
}

function isPath(word: string): boolean {
  return /^(\.{1,2}[\\/]|[\\/])/.test(word);
}

const importConditions = new Set(['node', 'import', 'default']);

/** The file that an import of a package gets, by the `exports` of its package.json. */
function importTarget(exports: unknown): string | undefined {
  if (typeof exports === 'string') return exports;
  if (typeof exports !== 'object' || exports === null) return undefined;
  const choices = Object.entries(exports);
  const root = choices.find(([name]) => name === '.');
  if (root !== undefined) return importTarget(root[1]);
  const targets = choices.map(([name, target]) => (importConditions.has(name) ? importTarget(target) : undefined));
  return targets.find((target) => target !== undefined);
}

/** The file of an import-only package beside the configuration; `require.resolve` does not find such a package. */
async function importedFile(word: string, configFile: string): Promise<string | undefined> {
  for (const modules of createRequire(configFile).resolve.paths(word) ?? []) {
    const text = await readFile(join(modules, word, 'package.json'), 'utf8').catch(() => undefined);
    if (text === undefined) continue;
    const target = importTarget((JSON.parse(text) as { exports?: unknown }).exports);
    return target === undefined ? undefined : join(modules, word, target);
  }
  return undefined;
}

async function importConnector(word: string, configFile: string): Promise<unknown> {
  if (isPath(word)) return import(pathToFileURL(resolve(configFile, '..', word)).href);
  try {
    // The package beside the configuration has priority, then the one beside cdsync.
    return await import(pathToFileURL(createRequire(configFile).resolve(word)).href);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== 'MODULE_NOT_FOUND' && code !== 'ERR_PACKAGE_PATH_NOT_EXPORTED') throw error;
    const file = await importedFile(word, configFile);
    return import(file === undefined ? word : pathToFileURL(file).href);
  }
}

function failureOf(word: string, error: unknown): { failure: string; isMissing?: boolean } {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION' && /\.[cm]?ts$/.test(word))
    return {
      failure:
        'is TypeScript, which this Node.js does not read: compile it, or add a loader: NODE_OPTIONS="--import tsx"',
    };
  const itself = code === 'ERR_MODULE_NOT_FOUND' && (isPath(word) || message.includes(`'${word}'`));
  if (!itself) return { failure: `cannot be loaded: ${String(message).split('\n')[0]}` };
  if (isPath(word)) return { failure: 'there is no such file' };
  return { failure: `no such package is installed; if it is a package, run npm install ${word}`, isMissing: true };
}

/** The connectors that come with cdsync and that a text seems to name, or all of them. */
export async function builtInConnectors(text?: string): Promise<ReadonlyMap<string, Connector>> {
  const named = new Set(Array.from(text?.matchAll(/\bconnector["']?\s*:\s*["']?(\w+)/g) ?? [], ([, name]) => name));
  const chosen = Object.entries(builtIn).filter(([name]) => text === undefined || named.has(name));
  return new Map(await Promise.all(chosen.map(async ([name, load]) => [name, (await load()).default] as const)));
}

/** Loads connectors that do not come with cdsync. This runs their code: cdsync trusts a configuration like a program. */
export async function loadConnectors(
  words: Iterable<string>,
  configFile: string,
): Promise<ReadonlyMap<string, LoadedConnector>> {
  const loaded = new Map<string, LoadedConnector>();
  for (const word of words) {
    try {
      const module = (await importConnector(word, configFile)) as { default?: unknown };
      loaded.set(
        word,
        isConnector(module.default) ? module.default : { failure: 'its default export is not a connector' },
      );
    } catch (error) {
      loaded.set(word, failureOf(word, error));
    }
  }
  return loaded;
}

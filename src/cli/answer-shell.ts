import { readFile } from 'node:fs/promises';
import { commonOptions } from './arguments.js';
import { optionWord } from './command-spec.js';
import { type CompletionSource, type ConfigNames, completionsOf } from './complete-words.js';
import { writeData } from './standard-streams.js';

/** Names that need no quotes and that no terminal takes for a command. */
const isName = (name: unknown): name is string => typeof name === 'string' && /^[a-z][a-z0-9_]{0,47}$/.test(name);

const namesIn = (list: unknown): string[] =>
  Array.isArray(list) ? list.map((each) => (each as { name?: unknown } | null)?.name).filter(isName) : [];

/** The names in a configuration, which may be unfinished. Nothing but names is taken from it. */
async function jobsOf(file = 'cdsync.yaml'): Promise<ConfigNames[]> {
  const { parse } = await import('yaml');
  try {
    const { jobs = {}, defaults } = parse(await readFile(file, 'utf8'), { logLevel: 'silent' });
    return Object.entries(jobs as Record<string, { streams?: unknown; destinations?: unknown } | null>)
      .filter(([job]) => isName(job))
      .map(([job, of]) => ({
        job,
        streams: namesIn(of?.streams ?? defaults?.streams),
        destinations: namesIn(of?.destinations ?? defaults?.destinations),
      }));
  } catch {
    return [];
  }
}

/**
 * Writes what may stand where the cursor is, for the scripts of `cdsync completion`.
 * @param given the shell, then the words after `cdsync`
 */
export async function answerShell(
  [, ...words]: readonly string[],
  commands: CompletionSource['commands'],
): Promise<void> {
  const help = { type: 'boolean', describe: 'show help' } as const;
  const version = { type: 'boolean', describe: 'show the version' } as const;
  const common = Object.entries({ ...commonOptions(), help, version });
  const source: CompletionSource = {
    commands,
    common: common.map(([name, declared]) => optionWord(name, declared)),
    jobs: jobsOf,
  };
  const { words: found, files } = await completionsOf(words, source);
  const lines = found.map(({ word, describe }) => `${word}\t${describe}`);
  writeData([...lines, ...(files === 'none' ? [] : [`:${files}`])].map((line) => `${line}\n`).join(''));
}

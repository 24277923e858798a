import { describe, expect, it } from 'vitest';
import { commands } from '../../../src/cli/commands.js';
import { completionsOf } from '../../../src/cli/complete-words.js';

const files: Record<string, { job: string; stream: string[]; destination: string[] }[]> = {
  'cdsync.yaml': [
    { job: 'nightly', stream: ['members', 'vip'], destination: ['warehouse'] },
    { job: 'weekly', stream: ['audit'], destination: ['lake'] },
  ],
  'jobs/other.yml': [{ job: 'other', stream: ['others'], destination: [] }],
};
const source = {
  commands,
  jobs: async (file = 'cdsync.yaml') => files[file] ?? [],
};

/** The words that may follow a command line; the last one is where the cursor is. */
async function wordsAfter(...words: string[]): Promise<string[]> {
  return (await completionsOf(words, source)).words.map(({ word }) => word);
}

describe('completion of words', () => {
  it('knows all commands, and those below a command', async () => {
    expect(await wordsAfter('')).toEqual(expect.arrayContaining(['run', 'push', 'query', 'completion', 'quickstart']));
    expect((await wordsAfter('')).length).toBe(commands.length);
    expect(await wordsAfter('sta')).toEqual(['status', 'state']);
    expect(await wordsAfter('state', '')).toEqual(['show', 'reset', 'remove']);
    expect(await wordsAfter('serve', 'keys', 'i')).toEqual(['issue']);
    expect(await wordsAfter('workflow', 'sto')).toEqual(['stop']);
  });

  it('knows the options of a command and those of every command, each until it is there', async () => {
    const options = await wordsAfter('run', '--');
    expect(options).toEqual(expect.arrayContaining(['--job', '--stream', '--full', '--json', '--env-file']));
    const left = await wordsAfter('run', '--full', '--stream', 'vip', '--');
    expect([left.includes('--full'), left.includes('--stream')]).toEqual([false, true]);
    expect(await wordsAfter('--ver')).toEqual(['--verbose', '--version']);
    expect(await wordsAfter('workflow', 'start', '--base')).toEqual(['--base-url']);
  });

  it('knows the choices of an option, also of one with a dash in its name', async () => {
    expect(await wordsAfter('query', '--format', '')).toEqual(expect.arrayContaining(['table', 'csv', 'json']));
    expect(await wordsAfter('run', '--log-format', 'j')).toEqual(['json']);
    expect(await wordsAfter('workflow', 'start', '--run-mode', '')).toEqual(['source', 'refresh', 'full']);
    expect(await wordsAfter('completion', '')).toEqual(['bash', 'zsh', 'fish']);
  });

  it('knows the names in the configuration that the command names', async () => {
    expect(await wordsAfter('run', '--job', '')).toEqual(['nightly', 'weekly']);
    expect(await wordsAfter('run', 'jobs/other.yml', '--job', '')).toEqual(['other']);
    expect(await wordsAfter('run', 'none.yaml', '--job', '')).toEqual([]);
    expect(await wordsAfter('run', '--stream', '')).toEqual(['members', 'vip', 'audit']);
    expect(await wordsAfter('run', '--job', 'weekly', '--stream', '')).toEqual(['audit']);
    expect(await wordsAfter('push', '--job', 'nightly', '--destination', 'w')).toEqual(['warehouse']);
    expect(await wordsAfter('diff', 'm')).toEqual(['members']);
    expect(await wordsAfter('diff', 'jobs/other.yml', '')).toEqual(['others']);
    expect(await wordsAfter('forget', 'members', '')).toEqual([]);
  });

  it.each([[['run', '--job=n']], [['run', '--job', '=', 'n']]])('understands %j', async (words) => {
    expect(await wordsAfter(...words)).toEqual(['nightly']);
  });

  it('returns which files may follow: configurations, any or none', async () => {
    const where = async (...words: string[]) => (await completionsOf(words, source)).files;
    expect(await where('run', '')).toBe('config');
    expect(await where('query', '')).toBe('config');
    expect(await where('run', 'cdsync.yaml', '')).toBe('none');
    expect(await where('run', '--env-file', '')).toBe('any');
    expect(await where('init', '')).toBe('any');
    expect(await where('run', '--job', '')).toBe('none');
  });

  it('says nothing where only the user knows: columns, keys, times', async () => {
    expect(await completionsOf(['diff', 'members', '--column', ''], source)).toEqual({ words: [], files: 'none' });
    expect(await completionsOf(['run', '--from', ''], source)).toEqual({ words: [], files: 'none' });
  });
});

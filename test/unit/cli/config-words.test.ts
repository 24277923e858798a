import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { expect, it } from 'vitest';
import { configAndWords } from '../../../src/cli/arguments.js';

it.each([["/srv/Anna's files/cdsync.yaml"], ['./jobs (1)/nightly.yml'], ['../a=b/"c".json'], ['jobs/each day.yaml']])(
  '%s is a configuration, although a key or SQL may have such signs',
  (config) => {
    expect(configAndWords([config, 'RUN'])).toEqual({ config, words: ['RUN'] });
  },
);

it('a relative name with such signs is a configuration if there is such a file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'words-'));
  writeFileSync(join(folder, 'a(1).yaml'), '');
  const name = relative('.', join(folder, 'a(1).yaml')).replace(/^/, 'src/../');
  expect(configAndWords([name, 'from members'])).toEqual({ config: name, words: ['from members'] });
});

it.each([["select 'x' as a.json"], ['email=a@example.org.json'], ['/* all */ select count(*) as j.json']])(
  '%s is none',
  (word) => {
    expect(configAndWords([word])).toEqual({ config: undefined, words: [word] });
  },
);

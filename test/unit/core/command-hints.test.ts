import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { completed, shellWord } from '../../../src/core/command-hints.js';

describe('a command in a hint', () => {
  it.each([
    ['next: cdsync run --full', {}, 'next: cdsync run --full'],
    ['next: cdsync run --full', { config: 'jobs/a.yaml' }, 'next: cdsync run jobs/a.yaml --full'],
    [
      'look at it, then: cdsync approve R-1, or: cdsync discard R-1',
      { config: 'my jobs.yaml', jobs: ['b'] },
      "look at it, then: cdsync approve 'my jobs.yaml' --job b R-1, or: cdsync discard 'my jobs.yaml' --job b R-1",
    ],
    ['next: cdsync push', { jobs: ['a', 'b'], envFile: '.env' }, 'next: cdsync push --job a --job b --env-file .env'],
    ['correct it, then: cdsync check', { jobs: 'all' }, 'correct it, then: cdsync check --all'],
    ['correct it, then: cdsync check', { isOffline: true }, 'correct it, then: cdsync check --offline'],
    ['cdsync run --job c (later)', { jobs: ['b'] }, 'cdsync run --job c (later)'],
    ['see: cdsync run --help', { config: 'a.yaml' }, 'see: cdsync run --help'],
    ['start `cdsync serve` first', { config: 'a.yaml' }, 'start `cdsync serve` first'],
    ['cdsync runs daily', { config: 'a.yaml' }, 'cdsync runs daily'],
    ['try: cdsync workflow stop w-1', { config: 'a.yaml', jobs: ['b'] }, 'try: cdsync workflow stop a.yaml w-1'],
    ['next: cdsync discover', { service: ['--tenant-id', 'a b'] }, "next: cdsync discover --tenant-id 'a b'"],
    ['next: cdsync run', { config: '-odd.yaml' }, 'next: cdsync run ./-odd.yaml'],
    [
      'cdsync verify says which; cdsync run --full',
      { config: 'a.yaml' },
      'cdsync verify a.yaml says which; cdsync run a.yaml --full',
    ],
  ] as const)('%j becomes, with %j, %j', (text, place, expected) => {
    expect(completed(text, place)).toBe(expected);
    expect(completed(expected, place), 'a second time').toBe(expected);
  });

  it.each(['a.yaml', 'a, b.json', "it's: mine.yml", '-odd.yaml', 'a,b:c.yaml'])(
    'of %j names another file in its place',
    (config) => {
      const text = 'it is kept; next: cdsync push --full, or: cdsync run (later)';
      const once = completed(text, { config, jobs: ['b'] });
      const place = { config: '/jobs/nightly.yaml', jobs: ['b'] };
      expect(completed(once, place)).toBe(completed(text, place));
    },
  );

  it('quotes any word so that a shell reads it back', () => {
    const word = fc
      .string({ unit: 'binary', minLength: 1 })
      .filter((text) => !/[\0\r\n]/.test(text) && text.isWellFormed());
    fc.assert(
      fc.property(fc.array(word, { minLength: 50, maxLength: 50 }), (words) => {
        const script = `printf '%s\\n' ${words.map(shellWord).join(' ')}`;
        expect(execFileSync('sh', ['-c', script], { encoding: 'utf8' }).split('\n').slice(0, -1)).toEqual(words);
      }),
      { numRuns: 2 },
    );
  });
});

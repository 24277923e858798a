import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseEnvText, readEnvFile } from '../../../src/config/env-file.js';
import { lintFile, loadConfig } from '../../../src/config/load.js';
import { head } from './sample.js';

const cases: [text: string, variables: Record<string, string>][] = [
  ['A=1', { A: '1' }],
  ['A = 1 \nB=2', { A: '1', B: '2' }],
  ['export A=1\n  export\tB=2', { A: '1', B: '2' }],
  ['# note\n\n  # note\nA=1', { A: '1' }],
  ['A=1 # note\nB=a#b\nC=#note\nD=', { A: '1', B: 'a#b', C: '', D: '' }],
  [`A='a # b' # note\nB="c # d"`, { A: 'a # b', B: 'c # d' }],
  ['A="x\\ny\\t\\"\\\\\\$\\q"\nB=\'x\\ny\'', { A: 'x\ny\t"\\$\\q', B: 'x\\ny' }],
  ['A="one\ntwo"\nB=\'\n\'', { A: 'one\ntwo', B: '\n' }],
  ['A=1\r\nB="2"\r\n', { A: '1', B: '2' }],
  ['\uFEFFA=1', { A: '1' }],
  ['A=1\nA=2', { A: '2' }],
  ['URL=postgres://u:p@h/d?x=y', { URL: 'postgres://u:p@h/d?x=y' }],
  ['A=$B $\u007bB}', { A: '$B $\u007bB}' }],
  ["A=it's", { A: "it's" }],
  ['', {}],
];

test.each(cases)('%j', (text, variables) => {
  expect(parseEnvText(text, '.env')).toEqual(variables);
});

describe('a line that is not KEY=VALUE', () => {
  const wrong: [text: string, lines: string[]][] = [
    ['A=1\nhunter2\nB=2\n1C=hunter2', ['.env:2:1', '.env:4:1']],
    ['A="hunter2', ['.env:1:3']],
    ["A=1\nB='hunter2\nC=3", ['.env:2:3']],
    ['A="x" hunter2', ['.env:1:6']],
    ['export hunter2', ['.env:1:8']],
  ];

  test.each(wrong)('%j is refused with its place, and without its text', (text, places) => {
    try {
      parseEnvText(text, '.env');
      expect.unreachable();
    } catch (error) {
      expect(error).toMatchObject({ code: 'env_file_invalid', kind: 'configuration' });
      const { message } = error as Error;
      expect(message.split('\n').map((line) => line.split('  ')[0])).toEqual(places);
      expect(message).not.toContain('hunter2');
    }
  });
});

test('the path is relative to the working directory', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'cdsync-env-'));
  writeFileSync(join(directory, '.env'), 'A=1\n');
  expect(await readEnvFile('.env', directory)).toEqual({ A: '1' });
  await expect(readEnvFile('none.env', directory)).rejects.toMatchObject({
    code: 'env_file_unreadable',
    kind: 'configuration',
    hint: `--env-file was looked for at ${join(directory, 'none.env')}`,
  });
  rmSync(directory, { recursive: true });
});

test.each([
  ['UTF-16, little-endian', Buffer.from('\ufeffA=hunter2\n', 'utf16le'), '1:1  the file is UTF-16; save it as UTF-8'],
  [
    'UTF-16, big-endian',
    Buffer.from('\ufeffA=hunter2\n', 'utf16le').swap16(),
    '1:1  the file is UTF-16; save it as UTF-8',
  ],
  ['Latin-1', Buffer.from('A=1\nB=hünter2\n', 'latin1'), '2:4  this is not UTF-8; save the file as UTF-8'],
])('a file in %s is refused by its name, and without its text', async (_, bytes, message) => {
  const directory = mkdtempSync(join(tmpdir(), 'cdsync-env-'));
  writeFileSync(join(directory, '.env'), bytes);
  await expect(readEnvFile('.env', directory)).rejects.toMatchObject({
    code: 'env_file_invalid',
    message: `.env:${message}`,
  });
  rmSync(directory, { recursive: true });
});

test('a file that every user can read is warned of, as a file of a variable is', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'cdsync-env-'));
  const envFile = join(directory, '.env');
  const file = join(directory, 'cdsync.yaml');
  writeFileSync(envFile, 'A=1\n');
  writeFileSync(
    file,
    `${head.replace('http://127.0.0.1:8787', 'https://cds.example')}jobs: { a: { streams: [{ name: s, source: indexes }] } }\n`,
  );
  for (const [mode, warnings] of [
    // The path is as short as the working directory lets it be.
    [0o644, [expect.stringMatching(/^every user of this machine can read the file \S*\/\.env; chmod 600 closes it$/)]],
    [0o600, []],
    [0o640, []],
  ] as const) {
    chmodSync(envFile, mode);
    expect((await loadConfig(file, { env: {}, envFile })).warnings).toEqual(warnings);
    expect((await lintFile(file, { env: {}, envFile })).warnings).toEqual(warnings);
  }
  rmSync(directory, { recursive: true });
});

import { spawnSync } from 'node:child_process';
import { chmod, mkdtemp, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

interface Problem {
  file: string;
  line: number;
  column: number;
  path: string;
  message: string;
}

const head = `version: 1
service: { base_url: "http://127.0.0.1:1", tenant_id: acme, auth: { token: "\${TOKEN:-t}" } }
storage: ./data
jobs:
  nightly:
    streams:
`;
const stream = '      - { name: members, source: index_profiles, index: people }\n';

/** Each a broken configuration, and its problems: line, column, path, and how the message begins. */
const broken: [name: string, text: string, problems: [number, number, string, string][]][] = [
  ['a syntax error', `${head}${stream}   odd: 1\n`, [[8, 1, '', 'the indentation does not fit']]],
  ['an open quote', `${head}${stream}    contract: "x\n`, [[8, 15, '', 'this quote is not closed']]],
  [
    'an unknown key',
    `${head}${stream.replace('index:', 'indx:')}`,
    [
      [7, 9, 'jobs.nightly.streams[0].index', 'missing'],
      [7, 50, 'jobs.nightly.streams[0].indx', 'unknown key'],
    ],
  ],
  ['a wrong value', `${head}${stream}    strings: maybe\n`, [[8, 14, 'jobs.nightly.strings', 'unknown value']]],
  [
    'several at once, in the order of the file',
    `${head.replace('./data', '"./a\\0b"')}${stream}${stream.replace('members', 'others')}    resume_within: 12\n    destinations: [{ name: d, connector: postgre }]\n`,
    [
      [3, 10, 'storage', 'holds the character U+0000'],
      [9, 20, 'jobs.nightly.resume_within', 'must be a duration'],
      [10, 42, 'jobs.nightly.destinations[0].connector', 'unknown value'],
    ],
  ],
];

describe.each([
  ['check --offline', ['check', '--offline']],
  ['check', ['check']],
  ['run', ['run']],
])('%s --json', (_, [command = '', ...flags]) => {
  it.each(broken)(
    'lists the problems of %s with file, line, column, path and message',
    async (name, text, expected) => {
      await writeFile(join(space.folder, 'broken.yaml'), text);
      const { code, stdout } = await space.cdsync([command, 'broken.yaml', ...flags, '--json']);
      expect(code).toBe(2);
      const { jobs, error, problems } = JSON.parse(stdout) as {
        jobs: unknown;
        error: { code: string };
        problems: Problem[];
      };
      expect([jobs, error.code]).toEqual([[], 'config_invalid']);
      expect(problems.map(({ file, line, column, path }) => [file, line, column, path])).toEqual(
        expected.map(([line, column, path]) => ['broken.yaml', line, column, path]),
      );
      for (const [index, [, , , message]] of expected.entries()) {
        expect(problems[index]?.message.startsWith(message), problems[index]?.message).toBe(true);
        expect(Object.keys(problems[index] ?? {}).sort()).toEqual(['column', 'file', 'line', 'message', 'path']);
      }
      expect(name).not.toBe('');
    },
  );
});

it('check --offline names itself as the next command: another check would want the variables', async () => {
  await writeFile(join(space.folder, 'broken.yaml'), `${head}${stream}    odd: 1\n`);
  const { code, stderr } = await space.cdsync(['check', 'broken.yaml', '--offline']);
  expect([code, stderr.trim().split('\n').at(-1)]).toEqual([
    2,
    'correct the file, then: cdsync check broken.yaml --offline',
  ]);
});

it('a file in order has no problems, and its result no such list of any', async () => {
  await writeFile(join(space.folder, 'fine.yaml'), `${head}${stream}`);
  const { code, stdout } = await space.cdsync(['check', 'fine.yaml', '--offline', '--json']);
  expect(code).toBe(0);
  expect((JSON.parse(stdout) as { problems?: Problem[] }).problems ?? []).toEqual([]);
});

it('an env file that every user can read is warned of', async () => {
  await writeFile(join(space.folder, 'fine.yaml'), `${head}${stream}`);
  await writeFile(join(space.folder, '.env'), 'TOKEN=x\n');
  const asked = async () =>
    (await space.cdsync(['check', 'fine.yaml', '--offline', '--env-file', '.env'])).stderr.includes(
      'every user of this machine can read the file .env; chmod 600 closes it',
    );
  await chmod(join(space.folder, '.env'), 0o644);
  expect(await asked()).toBe(true);
  await chmod(join(space.folder, '.env'), 0o600);
  expect(await asked()).toBe(false);
});

describe('in a working directory that was removed', () => {
  const program = join(import.meta.dirname, '..', '..', 'dist', 'src', 'cli', 'main.js');
  const inRemoved = async (words: string) => {
    const gone = await mkdtemp(join(space.folder, 'gone-'));
    const script = `cd '${gone}' && rmdir '${gone}' && exec '${process.execPath}' '${program}' ${words}`;
    return spawnSync('sh', ['-c', script], { encoding: 'utf8' });
  };
  const message = 'the working directory is gone: change to another folder, and run the command again';

  it.each(['run', 'check x.yaml', 'query "select 1"', 'quickstart', 'init', 'serve', '--help', '--version'])(
    'a command says so in one line: %s',
    async (words) => {
      const { status, stdout, stderr } = await inRemoved(words);
      expect([status, stdout, stderr]).toEqual([2, '', `error: ${message} [usage]\n`]);
    },
  );

  it('--json has the document of it', async () => {
    const { status, stdout } = await inRemoved('run --json');
    expect(status).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({ status: 'failed', jobs: [], error: { code: 'usage', message } });
  });
});

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

/** Clears the screen, sets the title, turns the direction of writing, and tries to begin its own line. */
const hostile = '\x1b[2J\x1b]0;owned\x07\x9b31m\u202E\r\nnext: rm -r /';
const obeyed = /[^\P{Cc}\n]|\p{Bidi_Control}/u;

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  const person = (id: string, n: number) => ({
    id: `${id}${hostile}`,
    index_id: 'people',
    attributes: { [`town${hostile}`]: hostile, n },
  });
  await space.control('profiles', { index: 'people', filterable: [], records: [person('a', 1), person('b', 2)] });
  const people = { name: 'people', source: 'index_profiles', index: 'people' };
  await space.configure('nightly', [people]);
  await space.configure('strict', [{ ...people, guards: { expect: ['select id from people'], unique: ['n'] } }]);
}, 60_000);
afterAll(() => space.close());

const service = () => ['--base-url', space.service.url, '--tenant-id', space.service.tenantId];
const commands: [string, () => string[]][] = [
  ['discover', () => ['discover', ...service()]],
  ['init', () => ['init', 'made.yaml', '--yes', '--force', ...service()]],
  ['plan', () => ['plan', 'nightly.json']],
  ['run', () => ['run', 'nightly.json']],
  ['status', () => ['status', 'nightly.json']],
  ['verify', () => ['verify', 'nightly.json', '--show-values']],
  ['check', () => ['check', 'nightly.json', '--contract']],
  ['diff', () => ['diff', 'nightly.json', 'people', '--show-values']],
  ['query', () => ['query', 'nightly.json', 'from people']],
  ['query of columns', () => ['query', 'nightly.json', 'from cdsync.columns']],
  ['state', () => ['state', 'show', 'nightly.json']],
  ['forget', () => ['forget', 'nightly.json', 'people', `a${hostile}`, '--show-values']],
  ['run with a guard', () => ['run', 'strict.json', '--show-values']],
];

it.each(commands)('%s shows nothing of names and values that a terminal would obey', async (_, words) => {
  for (const flags of [[], ['--verbose'], ['--json', '--log-format', 'json']]) {
    const { code, stdout, stderr } = await space.cdsync([...words(), ...flags]);
    expect([null, 2].includes(code) ? stderr : '').toBe('');
    expect(stdout).not.toMatch(obeyed);
    expect(stderr).not.toMatch(obeyed);
    expect((stdout + stderr).split('\n').filter((line) => line.startsWith('next: rm'))).toEqual([]);
  }
});

it('the file that init writes has nothing of them either', async () => {
  const text = await readFile(join(space.folder, 'made.yaml'), 'utf8');
  expect(text).not.toMatch(obeyed);
});

it('a message of the service is no different', async () => {
  await space.control('faults', { kind: 'status', match: '/profiles', status: 400, message: hostile, count: 100 });
  const { code, stdout, stderr } = await space.cdsync(['run', 'nightly.json', '--full', '--verbose']);
  expect(code).toBe(1);
  expect(stdout + stderr).not.toMatch(obeyed);
});

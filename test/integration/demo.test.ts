import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';

let folder: string;
beforeAll(async () => {
  // Closed to other users, like the home of root.
  folder = await mkdtemp(join(tmpdir(), 'cdsync-checkout-'));
  for (const name of ['build', 'configs', 'connectors', 'src', 'test', 'package.json', 'tsconfig.json'])
    await cp(name, join(folder, name), { recursive: true });
  for (const name of ['dist', 'node_modules']) await symlink(resolve(name), join(folder, name));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

it('npm run demo:postgres goes from the local service to PostgreSQL, and leaves no server behind', async () => {
  const [, command = ''] = /^(npm run demo:postgres)\b/m.exec(await readFile('README.md', 'utf8')) ?? [];
  const leftovers = async () => (await readdir(tmpdir())).filter((name) => name.startsWith('cdsync-demo-'));
  const before = await leftovers();
  const [program = '', ...words] = [...command.split(' '), '--', '2000'];
  const { stdout } = await promisify(execFile)(program, words, { cwd: folder });
  expect(stdout).toMatch(/crm +members +ok +create +2,000 /);
  const sum = [...stdout.matchAll(/^ {2}(?:bronze|silver|gold|platinum) +(\d+) /gm)].map(([, n]) => Number(n));
  expect(sum.reduce((all, each) => all + each, 0)).toBe(2000);
  const [, second = ''] = stdout.split('A day passes');
  const changed = /^ {2}members +ok +\S+ +(\d+) +(\d+) +(\d+)/m.exec(second)?.slice(1).map(Number) ?? [];
  expect(changed.reduce((all, each) => all + each, 0)).toBeGreaterThan(0);
  const delivered = Number(/crm +members +ok +increment +(\d+) /.exec(second)?.[1]);
  expect(delivered).toBe(changed.reduce((all, each) => all + each, 0));
  expect(second).toMatch(/^ {2}members +members +increment +1 +2 +\d+ +\d+ +\d{4}-/m);
  expect(await leftovers()).toEqual(before);
}, 180_000);

import { chmod, mkdir, mkdtemp, rm, stat, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { runtimeFolder } from '../../../src/rate-limit/file-leases.js';

async function input(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-runtime-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

it('makes its own folder in the runtime directory, for the user alone', async () => {
  const folder = await input();
  const own = await runtimeFolder(folder);
  expect(own).toBe(join(folder, 'cdsync'));
  expect((await stat(own)).mode & 0o777).toBe(0o700);
  expect(await runtimeFolder(folder)).toBe(own);
});

it('does not use a runtime directory that others can enter', async () => {
  const folder = await input();
  await chmod(folder, 0o755);
  expect(await runtimeFolder(folder)).not.toContain(folder);
});

it.each([
  ['a link', (path: string) => symlink(tmpdir(), path)],
  ['open to others', (path: string) => mkdir(path).then(() => chmod(path, 0o750))],
])('refuses a folder of its name that is %s', async (_, make) => {
  const folder = await input();
  await make(join(folder, 'cdsync'));
  await expect(runtimeFolder(folder)).rejects.toThrow('not a folder of mode 0700 that belongs to this user');
});

import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { QuickstartFolder } from '../../../src/cli/quickstart-folder.js';
import { makeFolders } from '../../../src/core/make-folders.js';

async function place(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-folders-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

it('makes the missing folders, and returns the first of them', async () => {
  const root = await place();
  expect(await makeFolders(join(root, 'a', 'b', 'c'), 0o700)).toBe(join(root, 'a'));
  expect((await stat(join(root, 'a', 'b', 'c'))).isDirectory()).toBe(true);
  expect(await makeFolders(join(root, 'a', 'b', 'd'), 0o700)).toBe(join(root, 'a', 'b', 'd'));
  expect(await makeFolders(join(root, 'a', 'b'), 0o700)).toBeUndefined();
});

it('takes no file for a folder', async () => {
  const file = join(await place(), 'a');
  await writeFile(file, '');
  await expect(makeFolders(file, 0o700)).rejects.toMatchObject({ code: 'EEXIST' });
});

it('makes folders that others make at the same time', async () => {
  const root = await place();
  const made = await Promise.all(
    Array.from({ length: 20 }, (_, n) => makeFolders(join(root, 'a', 'b', `${n}`), 0o700)),
  );
  expect(made.every((first) => first !== undefined)).toBe(true);
});

it.runIf(process.platform === 'linux')('ends with an error where a file system makes no folders', async () => {
  await expect(makeFolders('/proc/nope/data', 0o700)).rejects.toMatchObject({ code: 'ENOENT', path: '/proc' });
  const folder = await QuickstartFolder.look('/proc/nope');
  await expect(folder.make()).rejects.toMatchObject({ code: 'config_unwritable' });
});

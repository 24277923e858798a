import { mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { QuickstartFolder } from '../../../src/cli/quickstart-folder.js';
import { entriesBelow, makeFolders } from '../../../src/core/folders.js';

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
  const folder = await QuickstartFolder.open('/proc/nope');
  await expect(folder.make()).rejects.toMatchObject({ code: 'config_unwritable' });
});

it('lists all that is below a folder, and follows no link, out of it or in a circle', async () => {
  const [root, other] = [await place(), await place()];
  await mkdir(join(root, 'a', 'b'), { recursive: true });
  for (const path of [join(root, 'one'), join(root, 'a', 'b', 'two'), join(other, 'not mine')])
    await writeFile(path, '');
  await symlink(root, join(root, 'a', 'circle'));
  await symlink(other, join(root, 'out'));
  await symlink('b', join(root, 'a', 'beside'));
  const found = await entriesBelow(root);
  expect(found.map((each) => relative(root, join(each.parentPath, each.name))).sort()).toEqual([
    'a',
    'a/b',
    'a/b/two',
    'a/beside',
    'a/circle',
    'one',
    'out',
  ]);
  const files = found.filter((each) => each.isFile()).map(({ name }) => name);
  expect(files.sort()).toEqual(['one', 'two']);
  await expect(entriesBelow(join(root, 'nowhere'))).rejects.toMatchObject({ code: 'ENOENT' });
});

it('no other code reads folders recursively: since Node 26 that follows links', async () => {
  const root = join(import.meta.dirname, '..', '..', '..');
  const files = [...(await entriesBelow(join(root, 'src'))), ...(await entriesBelow(join(root, 'connectors')))];
  const paths = files.filter(({ name }) => name.endsWith('.ts')).map((each) => join(each.parentPath, each.name));
  expect(paths.length).toBeGreaterThan(400);
  const recursive: string[] = [];
  for (const path of paths)
    if (/(readdir|opendir|readdirSync)\([^;)]*, \{[^}]*recursive: true/.test(await readFile(path, 'utf8')))
      recursive.push(relative(root, path));
  expect(recursive).toEqual([]);
});

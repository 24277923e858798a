import { chmod, mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { JobLayout } from '../../../src/store/layout.js';
import { makeFolder, prepareStorage } from '../../../src/store/storage.js';

let root: string;
let umask: number;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'storage-'));
  umask = process.umask();
});
afterAll(async () => {
  process.umask(umask);
  await rm(root, { recursive: true });
});

async function modeOf(path: string): Promise<string> {
  return ((await stat(path)).mode & 0o7777).toString(8);
}

it.each([
  ['077', 0o077],
  ['022', 0o022],
  ['000', 0o000],
])('folders get the mode they are to have with umask %s', async (name, mask) => {
  process.umask(mask);
  const storage = join(root, name);
  const layout = new JobLayout(storage, 'nightly');
  await prepareStorage(layout, 0o640);
  for (const folder of [storage, layout.folder, layout.publishedFolder, layout.parquet])
    expect([folder, await modeOf(folder)]).toEqual([folder, '750']);
  for (const folder of [layout.private, layout.locks, layout.runs, layout.reports])
    expect([folder, await modeOf(folder)]).toEqual([folder, '700']);
});

it('an existing folder gets its mode, unless its owner has locked it, and keeps a group that files inherit', async () => {
  const folder = join(root, 'there');
  await mkdir(folder);
  await chmod(folder, 0o2755);
  await makeFolder(folder, 0o700);
  expect(await modeOf(folder)).toBe('2700');
  await chmod(folder, 0o500);
  await makeFolder(folder, 0o750);
  expect(await modeOf(folder)).toBe('500');
});

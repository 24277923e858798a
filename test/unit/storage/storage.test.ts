import { spawnSync } from 'node:child_process';
import { watch } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { entriesBelow } from '../../../src/core/folders.js';
import { packageVersion } from '../../../src/core/package-version.js';
import { jobStatus, statusLines } from '../../../src/output/status.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { makeFolder, prepareStorage, storageWriter, sweepStorage } from '../../../src/storage/storage.js';

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
])('folders get their intended mode with umask %s', async (name, mask) => {
  process.umask(mask);
  const storage = join(root, name);
  const layout = new JobLayout(storage, 'nightly');
  await prepareStorage(layout, 0o640);
  for (const folder of [storage, layout.folder, layout.publishedFolder, layout.parquet])
    expect([folder, await modeOf(folder)]).toEqual([folder, '750']);
  for (const folder of [layout.private, layout.locks, layout.runs, layout.reports])
    expect([folder, await modeOf(folder)]).toEqual([folder, '700']);
});

it('the folder says which version wrote it last, also after one that did not say so', async () => {
  const layout = new JobLayout(join(root, 'versions'), 'nightly');
  expect(await storageWriter(layout)).toBeUndefined();
  await prepareStorage(layout, 0o600);
  expect(await storageWriter(layout)).toBe(packageVersion());
  for (const format of ['{"format":1}', '{"format":1,"written_by":"0.0.9"}']) {
    await writeFile(layout.format, format);
    await prepareStorage(layout, 0o600);
    expect(await storageWriter(layout)).toBe(packageVersion());
  }
  const status = await jobStatus(layout, [], []);
  expect(status.written_by).toBe(packageVersion());
  expect(statusLines(status, 0)).toContain(`  storage written by cdsync ${packageVersion()}`);
});

it('a run tries the file system in the folder of its job only: the next one sweeps a trial that was killed', async () => {
  const storage = join(root, 'tried');
  await mkdir(storage);
  const seen: (string | null)[] = [];
  const watcher = watch(storage, (_, name) => seen.push(name));
  try {
    await prepareStorage(new JobLayout(storage, 'nightly'), 0o600);
    await mkdir(join(storage, 'last'));
    await vi.waitUntil(() => seen.includes('last'), { timeout: 10_000 });
  } finally {
    watcher.close();
  }
  expect([...new Set(seen)]).toEqual(['nightly', 'last']);
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

it('a folder where none can be made is reported at once, and not asked for again and again', async () => {
  await expect(prepareStorage(new JobLayout('/proc/cdsync', 'nightly'), 0o600)).rejects.toMatchObject({
    code: 'storage_failed',
    message: 'no folder can be made in /proc',
    hint: expect.stringContaining('storage'),
  });
});

it('a read-only file system is reported as such, with what to do', async ({ skip }) => {
  const place = join(root, 'read-only');
  await mkdir(place);
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'ro', 'none', place]).status !== 0) {
    console.warn('NOT TRIED: this user cannot mount a file system');
    skip();
  }
  try {
    const outcome = prepareStorage(new JobLayout(join(place, 'data', 'deep'), 'nightly'), 0o600);
    await expect(outcome).rejects.toMatchObject({
      code: 'storage_permission',
      message: expect.stringContaining('the file system is read-only'),
      hint: expect.stringContaining('mount it for writing'),
    });
  } finally {
    spawnSync('umount', [place]);
  }
});

it('is prepared by several processes at once, even if the first, which has the lock, sweeps temporary files of the others', async () => {
  for (let round = 0; round < 100; round++) {
    const layout = new JobLayout(join(root, 'together'), `job${round}`);
    let toPrepare = 4;
    const prepare = async () => {
      await prepareStorage(layout, 0o600).finally(() => toPrepare--);
      while (toPrepare > 0) await sweepStorage(layout);
    };
    const outcomes = await Promise.allSettled([prepare(), prepare(), prepare(), prepare()]);
    expect(outcomes.filter(({ status }) => status === 'rejected')).toEqual([]);
    const left = (await entriesBelow(layout.folder)).map((entry) => join(entry.parentPath, entry.name));
    expect(left).toEqual(expect.arrayContaining([layout.private, layout.parquet]));
  }
});

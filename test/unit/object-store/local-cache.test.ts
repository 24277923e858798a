import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, readlink, rm, symlink, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { LocalCache } from '../../../src/object-store/local-cache.js';
import { currentProcess } from '../../../src/storage/job-lock.js';

let root: string;
let cache: LocalCache;
const lockPath = () => join(root, '.bucket', 'nightly.lock');
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'local-cache-'));
  cache = await LocalCache.open(root, 'nightly', 's3://crm/nightly');
});
afterEach(() => rm(root, { recursive: true }));

/** The lock of a process that has ended, or of one that lives. */
async function lockOf(pid: number): Promise<string> {
  return JSON.stringify({ ...(await currentProcess(new Date().toISOString())), pid });
}

describe('the lock of a cache', () => {
  it('names its owner from the first moment on, and is gone after its release', async () => {
    const release = await cache.lock();
    expect(JSON.parse(await readlink(lockPath()))).toMatchObject({ host: hostname(), pid: process.pid });
    await release?.();
    expect(await readdir(join(root, '.bucket'))).toEqual([]);
  });

  it('is taken from a process that has ended, but not from one that lives', async () => {
    const { pid } = spawnSync(process.execPath, ['-e', '']);
    await symlink(await lockOf(pid), lockPath());
    const release = await cache.lock();
    expect(release).toBeDefined();
    await release?.();
    await symlink(await lockOf(process.ppid), lockPath());
    expect(await cache.lock()).toBeUndefined();
    expect(execFileSync('ls', ['-A', join(root, '.bucket')], { encoding: 'utf8' })).toBe('nightly.lock\n');
  });
});

it('a manifest that cannot be read is damaged; a missing one is not', async () => {
  expect(cache).toMatchObject({ hasManifest: false, damaged: undefined });
  await cache.resetTo('s3://crm/nightly');
  expect(await LocalCache.open(root, 'nightly', 's3://crm/nightly')).toMatchObject({ hasManifest: true });
  const path = join(root, '.bucket', 'nightly.json');
  await writeFile(path, (await readFile(path, 'utf8')).replace('nightly', 'nightlY'));
  const damaged = await LocalCache.open(root, 'nightly', 's3://crm/nightly');
  expect(damaged).toMatchObject({ hasManifest: false, damaged: path });
});

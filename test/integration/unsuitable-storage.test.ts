import { spawnSync } from 'node:child_process';
import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ended, Workspace } from '../fixtures/workspace.js';

const source = join(import.meta.dirname, '..', 'fixtures', 'missing-calls.c');
const hasCompiler = process.platform === 'linux' && spawnSync('cc', ['--version']).status === 0;

describe.skipIf(!hasCompiler)('a storage folder on a file system that lacks something', () => {
  let space: Workspace;
  let shim: string;
  beforeAll(async () => {
    space = await Workspace.open({ profiles: 50 });
    shim = join(space.folder, 'missing-calls.so');
    const { status, stderr } = spawnSync('cc', ['-shared', '-fPIC', '-o', shim, source, '-ldl'], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });
  afterAll(() => space.close());

  const streams = [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }];
  const lacking = (lacks: string) => ({ LD_PRELOAD: shim, LACKS: lacks, PLACE: space.folder });

  it.each([
    ['lock', 'file locks'],
    ['lockopn', 'file locks'],
    ['symlink', 'symbolic links'],
    ['chmod', 'permissions of files (chmod)'],
    ['dirsync', 'syncing files and folders (fsync)'],
    ['filesync', 'syncing files and folders (fsync)'],
    ['symlink,chmod,dirsync', 'symbolic links, permissions of files (chmod), syncing files and folders (fsync)'],
  ])('says so before the first request: %s', async (lacks, named) => {
    const job = `lacks_${lacks.replaceAll(',', '_')}`;
    await space.configure(job, streams);
    const files = await readdir(space.folder);
    for (const command of ['check', 'run']) {
      await space.control('stats/reset');
      const { code, stdout } = await ended(space.spawn([command, `${job}.json`, '--json', '--quiet'], lacking(lacks)));
      const { error } = JSON.parse(stdout) as { error: { code: string; message: string } };
      expect({ command, code, error: error.code }).toEqual({ command, code: 1, error: 'storage_unsuitable' });
      expect(error.message).toContain(`lacks ${named}`);
      expect(await space.operations()).toEqual({});
      if (command === 'check') expect(await readdir(space.folder)).toEqual(files);
    }
  });

  it('copies files where there are no hard links', async () => {
    await space.configure('without_links', streams);
    for (let day = 0; day < 2; day += 1) {
      await space.control('change', { days: 1 });
      const run = await ended(space.spawn(['run', 'without_links.json', '--quiet'], lacking('link')));
      expect({ code: run.code, stderr: run.stderr }).toEqual({ code: 0, stderr: '' });
    }
    const verified = await ended(space.spawn(['verify', 'without_links.json'], lacking('link')));
    expect(verified.code).toBe(0);
    for (const path of await space.files('without_links'))
      expect((await lstat(join(space.jobFolder('without_links'), path))).nlink).toBe(1);
  });
});

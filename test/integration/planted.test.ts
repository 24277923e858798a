import { lstat, mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let outside: string;
const job = (...path: string[]) => join(space.folder, 'data', 'nightly', ...path);

beforeAll(async () => {
  space = await Workspace.open({ profiles: 100 });
  await space.configure('nightly', [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }], {
    job: { destinations: [{ name: 'files', connector: 'files', path: './out', streams: ['members'] }] },
  });
  expect((await space.cdsync(['run', 'nightly.json'])).code).toBe(0);
  outside = join(space.folder, 'outside');
  await mkdir(join(outside, 'inner'), { recursive: true });
  await writeFile(join(outside, 'precious'), 'precious');
}, 60_000);
afterAll(() => space.close());

async function stateOfOutside(): Promise<unknown> {
  const names = await readdir(outside, { recursive: true });
  const modes = await Promise.all(['.', ...names].map(async (name) => (await lstat(join(outside, name))).mode));
  return { names, modes, text: await readFile(join(outside, 'precious'), 'utf8') };
}

const commands: [string, string[]][] = [
  ['run', ['run', 'nightly.json']],
  ['push', ['push', 'nightly.json', '--full']],
  ['verify', ['verify', 'nightly.json']],
  ['forget', ['forget', 'nightly.json', 'members', 'absent']],
  ['state reset', ['state', 'reset', 'nightly.json']],
  ['state reset of a destination', ['state', 'reset', 'nightly.json', '--destination', 'files']],
];
const places: [string, string, string][] = [
  ['.cdsync', '.cdsync', 'inner'],
  ['the lock', '.cdsync/locks/job.duckdb', 'precious'],
  ['deliveries', '.cdsync/deliveries', 'inner'],
  ['runs', '.cdsync/runs', 'inner'],
  ['published', 'published', 'inner'],
  ['the files of a stream', 'parquet/members', 'inner'],
];

describe.each(commands)('cdsync %s', (_, words) => {
  it('follows no link in the folder of the job', async () => {
    for (const [what, place, target] of places) {
      const before = await stateOfOutside();
      const path = job(place);
      await rename(path, `${space.folder}/kept`);
      await mkdir(dirname(path), { recursive: true });
      await symlink(join(outside, target), path);
      const { code, stderr } = await space.cdsync(words);
      expect([what, code, stderr]).toEqual([what, 1, expect.stringContaining('[storage_link]')]);
      expect(stderr).toContain(`nightly/${place} is a link`);
      expect(await stateOfOutside()).toEqual(before);
      await rm(path);
      await rename(`${space.folder}/kept`, path);
    }
  });
});

it('works again once the links are gone', async () => {
  expect((await space.cdsync(['run', 'nightly.json'])).code).toBe(0);
});

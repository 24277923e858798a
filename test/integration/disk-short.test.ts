import { readFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';
import { canMount, onSmallDisk } from '../fixtures/shell.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 20_000 });
});
afterAll(() => space.close());

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
const diskBytes = 60e6;

/** The contents of a file that a script has written. */
const json = async (name: string) => JSON.parse(await readFile(join(space.folder, name), 'utf8'));

/** Fills the disk of the storage folder, except for this many bytes. */
const fill = (left: number) => `head -c $(( $(stat -f -c '%a * %S' data) - ${left} )) /dev/zero > data/filler`;

const onDisk = (script: string) => onSmallDisk(space, join(space.folder, 'data'), diskBytes, script);

describe.skipIf(!canMount)('a disk that is too small', () => {
  it('fails a run before its first request, if the last snapshot would not fit', async () => {
    const before = [{ start_workflow: { config_id: 'cg-1' } }];
    await rename(await space.configure('short', [members], { job: { before } }), join(space.folder, 'after.json'));
    await space.configure('short', [members]);
    const { stdout } = await onDisk(
      `cdsync run short.json --quiet > /dev/null || exit 1
       ${fill(300_000)}
       curl -s -H 'Authorization: Bearer ${space.service.controlToken}' ${space.service.url}/_control/stats > asked-before.json
       cdsync run after.json --json 2> said > refused.json; echo "exit $?"
       curl -s -H 'Authorization: Bearer ${space.service.controlToken}' ${space.service.url}/_control/stats > asked-after.json
       tail -n 1 said
       cdsync plan after.json --json --quiet 2> /dev/null > planned.json; echo "plan $?"
       rm data/filler
       cdsync run short.json --json --quiet > enough.json; echo "exit $?"`,
    );
    expect(stdout).toMatch(
      /^exit 1\nfree disk space, then: cdsync run .*last good snapshot is .* old\)\nplan 1\nexit 0\n$/,
    );
    const [short, enough] = [await json('refused.json'), await json('enough.json')];
    expect(short).toMatchObject({ status: 'failed', jobs: [], error: { code: 'disk_short' } });
    expect(short.error.message).toMatch(/the last snapshot of members takes \d.* MB, and \d.* kB are free in \//);
    expect(await json('planned.json')).toMatchObject({ status: 'failed', disk: { short: 'refused' } });
    expect(enough).toMatchObject({ status: 'ok', jobs: [{ streams: [{ unchanged: 20_000 }] }] });
    expect(await json('asked-after.json')).toEqual(await json('asked-before.json'));
    expect((await json('asked-before.json')).requests).toBeGreaterThan(0);
  });

  it('causes only a warning if it may be enough, and on a first run', async () => {
    await space.configure('tight', [members]);
    const { stderr, stdout } = await onDisk(
      `cdsync run tight.json > /dev/null || exit 1
       ${fill(19_000_000)}
       cdsync run tight.json > /dev/null; echo "exit $?"`,
    );
    expect(stdout).toBe('exit 0\n');
    expect(stderr).toMatch(
      /warning: .* are free in .*, and streams are read for the first time; cdsync plan tight.json shows/,
    );
    expect(stderr).toMatch(/warning: a run like the last needs up to .* MB, and .* are free in/);
  });
});

it('a plan says no less than small streams take, in a first run', async () => {
  const streams = [
    { ...members, index: 'small' },
    { name: 'copy', source: 'sql', key: ['id'], query: 'select * from members' },
    { name: 'segments', source: 'segments' },
  ];
  const records = Array.from({ length: 900 }, (_, n) =>
    JSON.stringify({ id: `p${n}`, index_id: 'small', attributes: { n, tier: 'gold', city: `c${n}` } }),
  );
  await space.control('profiles', { index: 'small', records });
  await space.configure('few', streams);
  const { stdout } = await space.cdsync(['plan', 'few.json', '--json', '--quiet']);
  await space.runWell('few');
  const entries = (await entriesBelow(space.jobFolder('few'))).filter((entry) => entry.isFile());
  const sizes = await Promise.all(entries.map((entry) => stat(join(entry.parentPath, entry.name))));
  const { disk } = JSON.parse(stdout) as { disk: { need: { total: number } } };
  expect(sizes.reduce((sum, { size }) => sum + size, 0)).toBeLessThan(disk.need.total);
});

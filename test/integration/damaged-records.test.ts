import { cp, mkdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let runId: string;
const kept = () => `${space.folder}-kept`;
const serve = (count: number) =>
  space.control('profiles', {
    index: 'people',
    records: Array.from({ length: count }, (_, n) =>
      JSON.stringify({ id: `p${n}`, index_id: 'people', attributes: { n } }),
    ),
  });

/** Two streams that one run holds. */
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  const guards = { max_deleted: '5 rows' };
  const streams = ['one', 'two'].map((name) => ({ name, source: 'index_profiles', index: 'people', guards }));
  await space.configure('job', streams);
  await serve(30);
  await space.runWell('job');
  await serve(10);
  const held = await space.run('job');
  expect(held.code).toBe(3);
  runId = held.report.jobs[0]?.run_id ?? '';
  await cp(space.jobFolder('job'), kept(), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
}, 60_000);
afterAll(async () => {
  await space.close();
  await rm(kept(), { recursive: true, force: true });
});

async function restore(): Promise<void> {
  await rm(space.jobFolder('job'), { recursive: true, force: true });
  await cp(kept(), space.jobFolder('job'), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
}

const cut = async (path: string) => truncate(path, 300);
const flipped = async (path: string) => {
  const bytes = await readFile(path);
  bytes[200] = (bytes[200] as number) ^ 1;
  await writeFile(path, bytes);
};
/** To read it is an error of the file system, as from a disk that fails. */
const folder = async (path: string) => {
  await rm(path);
  await mkdir(path);
};

describe.each([
  ['is cut', cut],
  ['has a flipped bit', flipped],
  ['cannot be read', folder],
])('a held result whose file %s', (_, damage) => {
  beforeAll(async () => {
    await restore();
    await damage(join(space.jobFolder('job'), '.cdsync', 'runs', runId, 'streams', 'two', 'held.json'));
  });

  it('is reported by approve, diff and status, and approves nothing of its run', async () => {
    for (const words of [
      ['approve', 'job.json', runId],
      ['approve', 'job.json', runId, '--stream', 'two'],
      ['diff', 'job.json', 'two', '--held', runId],
    ]) {
      const { code, stderr } = await space.cdsync(words);
      expect([code, stderr], words.join(' ')).toEqual([
        1,
        expect.stringMatching(/held\.json cannot be read \[state_unreadable\]/),
      ]);
      expect(stderr).toContain(`cdsync discard job.json ${runId}`);
    }
    const { stdout } = await space.cdsync(['status', 'job.json']);
    expect(stdout).toMatch(/two: .*held\.json cannot be read/);
    expect(await space.query('job', 'select count(*) as n from one')).toEqual([{ n: '30' }]);
  });

  it('can be discarded with the rest of its run', async () => {
    const { code, stderr } = await space.cdsync(['discard', 'job.json', runId]);
    expect(code, stderr).toBe(0);
    expect((await space.cdsync(['discard', 'job.json', runId])).stderr).toContain('[not_held]');
  });
});

describe.each([
  ['is cut', cut],
  ['cannot be read', folder],
])('a report that %s', (_, damage) => {
  it('is reported, and an older one does not take its place', async () => {
    await restore();
    await damage(join(space.jobFolder('job'), 'reports', `${runId}.json`));
    for (const words of [
      ['report', 'job.json'],
      ['report', 'job.json', runId],
    ]) {
      const { code, stderr } = await space.cdsync(words);
      expect([code, stderr]).toEqual([1, expect.stringMatching(/report of run .* is damaged: .*\[state_unreadable\]/)]);
    }
    const { stdout } = await space.cdsync(['status', 'job.json']);
    expect(stdout).toMatch(/the report of run .* is damaged/);
  });
});

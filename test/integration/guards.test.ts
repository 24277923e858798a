import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

type Attributes = Record<string, unknown>;

async function serve(index: string, count: number, attributes: (n: number) => Attributes): Promise<void> {
  const records = Array.from({ length: count }, (_, n) =>
    JSON.stringify({ id: `r${n}`, index_id: index, attributes: attributes(n) }),
  );
  await space.control('profiles', { index, records });
}

const made = (guards: Attributes = {}, name = 'made') => ({ name, source: 'index_profiles', index: name, guards });
const same = (n: number) => ({ n });

/** A job with a snapshot of 100 rows, then another day, run under these guards. */
async function secondDay(job: string, guards: Attributes, count: number, attributes: (n: number) => Attributes) {
  await serve('made', 100, same);
  await space.configure(job, [made(guards)]);
  await space.runWell(job);
  await serve('made', count, attributes);
  const { code, report, stderr } = await space.run(job);
  const [of] = report.jobs;
  if (of === undefined) throw new Error(stderr);
  return { code, stderr, run: of.run_id, job: of, stream: streamOf(of, 'made') };
}

const rows = async (job: string) => Number((await space.query(job, 'select count(*)::int as rows from made'))[0]?.rows);

describe('a guard holds', () => {
  it.each([
    [
      'more deletes than a tenth, where nothing is said',
      {},
      85,
      same,
      'guard_max_deleted',
      /15 of 100 \(15\.0%\) rows would be deleted, 10% may be: r\d+, r\d+, r\d+, …/,
    ],
    [
      'more deletes than a number',
      { max_deleted: 3 },
      96,
      same,
      'guard_max_deleted',
      /4 of 100 .*, 3 may be: r96, r97, r98, …/,
    ],
    [
      'more changes than a share',
      { max_changed: '20%' },
      100,
      (n: number) => ({ n: n < 21 ? -n - 1 : n }),
      'guard_max_changed',
      /21 updates and 0 deletes on 100 rows, where 20% may change/,
    ],
    ['too few rows', { min_rows: 98 }, 97, same, 'guard_min_rows', /97 rows are fewer than 98/],
    [
      'too many rows without a value',
      { max_null: { n: '5%' } },
      100,
      (n: number) => (n < 6 ? { m: 1 } : { n }),
      'guard_max_null',
      /6 of 100 \(6\.0%\) rows have no n, 5% may have none/,
    ],
    [
      'values that are not unique',
      { unique: ['n'] },
      100,
      (n: number) => ({ n: n < 2 ? 0 : n }),
      'guard_unique',
      /1 rows have the n of another row/,
    ],
    [
      'what a query finds',
      { expect: ['select id from made where n > 99'] },
      101,
      same,
      'guard_expect',
      /1 rows came of a query that must give none: select id from made/,
    ],
    ['nothing at all', {}, 0, same, 'empty_answer', /nothing came back, where the last snapshot has 100 rows/],
  ] as const)('%s', async (_, guards, count, attributes, code, message) => {
    const job = `held_${code}${Object.keys(guards).length}`;
    const ended = await secondDay(job, guards, count, attributes);
    expect([ended.code, ended.job.status, ended.stream.status]).toEqual([3, 'held', 'held']);
    expect(ended.stream.error).toMatchObject({ code });
    expect(ended.stream.error?.message).toMatch(message);
    expect(ended.stderr).toContain(`cdsync approve ${ended.run}, or: cdsync discard ${ended.run}`);
    expect(await rows(job)).toBe(100);
  });

  it('records that could not be kept, unless they may be', async () => {
    await serve('made', 100, same);
    await space.configure('rejecting', [made()]);
    await space.control('faults', { kind: 'garbage_record', match: '/profiles', count: 1 });
    expect((await space.run('rejecting')).report.jobs[0]?.streams[0]?.error?.code).toBe('guard_max_rejected');
    await space.clearFaults();
  });

  it('nothing where changes are within bounds, and on the first run', async () => {
    const ended = await secondDay(
      'within',
      { max_deleted: '5%', max_changed: '10%', unique: ['n'], max_null: { n: 0 } },
      95,
      same,
    );
    expect([ended.code, ended.stream.deleted]).toEqual([0, 5]);
  });

  it('only its stream, or the whole job', async () => {
    await serve('other', 5, same);
    for (const [scope, others] of [
      ['stream', 'ok'],
      ['job', 'held'],
    ] as const) {
      await serve('made', 100, same);
      const job = `scope_${scope}`;
      await space.configure(job, [made(), made({}, 'other')], { job: { guards: { scope } } });
      await space.runWell(job);
      await serve('made', 50, same);
      await serve('other', 5, (n) => ({ n: n + 1 }));
      const { code, report } = await space.run(job);
      expect([code, report.jobs[0]?.streams.map(({ status }) => status)]).toEqual([3, ['held', others]]);
      await serve('other', 5, same);
    }
  });
});

describe('a stream that is made of one that is held', () => {
  it('is skipped, and the run counts as held', async () => {
    await serve('made', 100, same);
    const counted = { name: 'counted', source: 'sql', key: ['n'], query: 'select count(*) as n from made' };
    const more = { name: 'more', source: 'sql', key: ['n'], query: 'select n + 1 as n from counted' };
    await space.configure('waiting', [made(), counted, more]);
    await space.runWell('waiting');
    await serve('made', 50, same);
    const { code, report } = await space.run('waiting');
    expect([code, report.status]).toEqual([3, 'held']);
    expect(report.jobs[0]?.streams.map(({ status, error }) => [status, error?.code])).toEqual([
      ['held', 'guard_max_deleted'],
      ['skipped', 'dependency'],
      ['skipped', 'dependency'],
    ]);
  });
});

describe('what is held', () => {
  it('is committed once it is approved', async () => {
    const { run, stream } = await secondDay('approved', {}, 50, (n) => ({ n: n === 0 ? -1 : n }));
    const { code, stdout } = await space.cdsync(['approve', 'approved.json', run, '--json']);
    expect(code).toBe(0);
    const [job] = JSON.parse(stdout).jobs;
    expect(job).toMatchObject({ run_id: run, sequence: 2, status: 'ok' });
    expect(job.streams[0]).toMatchObject({ rows: 50, deleted: 50, updated: 1 });
    expect(stream).toMatchObject({ deleted: 50, updated: 1 });
    expect(await rows('approved')).toBe(50);
    expect((await space.manifest('approved', 'made')).rows).toBe(50);
    expect(await readdir(join(space.jobFolder('approved'), '.cdsync', 'runs'))).toEqual([]);
    expect(streamOf(await space.runWell('approved'), 'made').unchanged).toBe(50);
    expect((await space.cdsync(['approve', 'approved.json', run])).code).toBe(2);
  });

  it('is thrown away when it is discarded, and the next run reads anew', async () => {
    const { run } = await secondDay('discarded', {}, 50, same);
    const status = JSON.parse((await space.cdsync(['status', 'discarded.json', '--json'])).stdout);
    expect(status.streams[0]).toMatchObject({
      checkpoint: null,
      held: { run_id: run, findings: [{ guard: 'max_deleted' }] },
    });
    expect((await space.cdsync(['status', 'discarded.json'])).stdout).toContain(`cdsync approve ${run}`);
    expect((await space.cdsync(['discard', 'discarded.json', run])).code).toBe(0);
    expect(existsSync(join(space.jobFolder('discarded'), '.cdsync', 'runs', run))).toBe(false);
    expect(await rows('discarded')).toBe(100);
    expect((await space.run('discarded')).code).toBe(3);
  });

  it('gives way to what a later run commits or holds', async () => {
    const { run } = await secondDay('superseded', {}, 50, same);
    const again = (await space.run('superseded')).report.jobs[0];
    expect(again?.status).toBe('held');
    expect(again?.run_id).not.toBe(run);
    expect(await readdir(join(space.jobFolder('superseded'), '.cdsync', 'runs'))).toEqual([again?.run_id]);
    await serve('made', 100, same);
    await space.runWell('superseded');
    const { code, stderr } = await space.cdsync(['approve', 'superseded.json', String(again?.run_id)]);
    expect([code, stderr]).toEqual([2, expect.stringContaining('nothing is held at all')]);
  });

  it('may be approved although nothing came back', async () => {
    const { run } = await secondDay('emptied', {}, 0, same);
    expect((await space.cdsync(['approve', 'emptied.json', run])).code).toBe(0);
    expect(await rows('emptied')).toBe(0);
  });
});

describe('a stream that is about other records than before', () => {
  it('needs --accept, and then is a new baseline whatever changes', async () => {
    await space.configure('redefined', [{ name: 'made', source: 'index_profiles', index: 'loyalty_members' }]);
    await space.runWell('redefined');
    await space.configure('redefined', [
      {
        name: 'made',
        source: 'index_profiles',
        index: 'loyalty_members',
        filter: { tier: 'gold' },
        guards: { min_rows: 0 },
      },
    ]);
    const { code, report } = await space.run('redefined');
    expect([code, report.jobs[0]?.streams[0]?.error?.code]).toEqual([1, 'definition_changed']);
    expect(report.jobs[0]?.streams[0]?.error?.message).toContain('its filter changed');
    expect(await rows('redefined')).toBe(10);
    const accepted = streamOf(await space.runWell('redefined', ['--accept']), 'made');
    expect(accepted.deleted).toBeGreaterThan(0);
    await space.runWell('redefined');
  });
});

import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobReport } from '../../src/core/run-report.js';
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

/** A job with a snapshot of 100 rows, then another day that is held. */
async function heldDay(job: string, count: number, attributes: (n: number) => Attributes) {
  await serve('made', 100, same);
  await space.configure(job, [made()]);
  await space.runWell(job);
  await serve('made', count, attributes);
  return heldRun(job);
}

/** A run that ends with something held. */
async function heldRun(job: string) {
  const { code, report, stderr } = await space.run(job);
  const [of] = report.jobs;
  if (code !== 3 || of === undefined) throw new Error(`nothing is held: ${stderr}`);
  return { stderr, run: of.run_id, stream: streamOf(of, 'made') };
}

const runFolders = (job: string) => readdir(join(space.jobFolder(job), '.cdsync', 'runs'));

const rows = async (job: string) => Number((await space.query(job, 'select count(*)::int as rows from made'))[0]?.rows);

describe('guards', () => {
  it('hold each stream that breaks one, and the streams that need it; the others are committed', async () => {
    const guarded = (name: string, guards: Attributes) => ({ name, source: 'index_profiles', index: 'made', guards });
    const streams: [Attributes, string, string | undefined, RegExp][] = [
      [guarded('usual', {}), 'ok', undefined, /^$/],
      [guarded('within', { max_deleted: '5%', max_changed: '12%', min_rows: 95 }), 'ok', undefined, /^$/],
      [
        guarded('deletes', { max_deleted: 3 }),
        'held',
        'guard_max_deleted',
        /5 of 100 rows deleted \(5%\); the limit is 3 rows: r95, r96, r97, …/,
      ],
      [
        guarded('changes', { max_changed: '11%' }),
        'held',
        'guard_max_changed',
        /12 changes on 100 rows \(12%\); the limit is 11%/,
      ],
      [guarded('rows', { min_rows: 96 }), 'held', 'guard_min_rows', /95 rows; the minimum is 96/],
      [
        guarded('nulls', { max_null: { n: '5%' } }),
        'held',
        'guard_max_null',
        /n is empty in 6\.3% of 95 rows; the limit is 5%/,
      ],
      [guarded('twins', { unique: ['n'] }), 'held', 'guard_unique', /1 row with the n of another row; expected 0/],
      [
        guarded('asked', { expect: ['select id from asked where n is null'] }),
        'held',
        'guard_expect',
        /the check query returned 6 rows, expected 0: select id from asked/,
      ],
      [
        { name: 'counted', source: 'sql', key: ['n'], query: 'select count(*) as n from deletes' },
        'skipped',
        'dependency',
        /it needs stream "deletes", which a guard holds/,
      ],
      [
        { name: 'more', source: 'sql', key: ['n'], query: 'select n + 1 as n from counted' },
        'skipped',
        'dependency',
        /it needs stream "counted", which a guard holds/,
      ],
    ];
    await serve('made', 100, same);
    await space.configure(
      'guarded',
      streams.map(([stream]) => stream),
    );
    await space.runWell('guarded');
    await serve('made', 95, (n) => (n === 1 ? { n: 0 } : n > 1 && n < 8 ? { m: n } : { n }));
    const { code, report, stderr } = await space.run('guarded');
    const [job] = report.jobs;
    expect([code, job?.status, job?.sequence]).toEqual([3, 'held', 2]);
    expect(job?.streams.map(({ name, status, error }) => [name, status, error?.code])).toEqual(
      streams.map(([{ name }, status, error]) => [name, status, error]),
    );
    for (const [{ name }, , , message] of streams) {
      expect([name, streamOf(job as JobReport, String(name)).error?.message ?? '']).toEqual([
        name,
        expect.stringMatching(message),
      ]);
    }
    expect(stderr).toContain(
      `cdsync approve guarded.json ${job?.run_id}, or: cdsync discard guarded.json ${job?.run_id}`,
    );
    expect(
      await space.query(
        'guarded',
        'select (from (select count(*)::int from deletes)) as held, (from (select count(*)::int from within)) as kept',
      ),
    ).toEqual([{ held: 100, kept: 95 }]);
  });

  it('hold records that could not be kept, unless they may be', async () => {
    await serve('made', 100, same);
    await space.configure('rejecting', [made()]);
    await space.control('faults', { kind: 'garbage_record', match: '/profiles', count: 1 });
    expect((await space.run('rejecting')).report.jobs[0]?.streams[0]?.error?.code).toBe('guard_max_rejected');
    await space.clearFaults();
  });

  it('shows the values that a held run could not keep, and publishes the rejects of a run that changed nothing', async () => {
    const rejects = () =>
      space.query('looked_at', 'select key, count(*)::int as n from cdsync.rejects group by all order by all');
    await serve('made', 100, same);
    await space.configure('looked_at', [made()]);
    await space.runWell('looked_at');
    const nested = JSON.parse(`${'['.repeat(1500)}${']'.repeat(1500)}`);
    await serve('made', 101, (n) => (n === 100 ? { nested } : same(n)));
    const { stdout, report } = await space.run('looked_at');
    const run = report.jobs[0]?.run_id ?? '';
    expect(stdout + JSON.stringify(report)).toContain('guard_max_rejected');
    const held = await space.cdsync(['diff', 'looked_at.json', '--held', run, 'made', '--json']);
    expect(JSON.parse(held.stdout)).toMatchObject({ inserted: 0, rejected: 1, rejects: [{ key: null, column: null }] });
    const shown = await space.cdsync(['diff', 'looked_at.json', '--held', run, 'made']);
    expect(shown.stdout).toMatch(/1 reject: .*\n +key .*\n +\(no key\) /s);
    expect(await rejects()).toEqual([]);
    await space.configure('looked_at', [made({ max_rejected: 'off' })]);
    const { sequence } = await space.runWell('looked_at');
    expect([sequence, await rejects()]).toEqual([1, [{ key: null, n: 1 }]]);
  });

  it('hold the whole job if configured so', async () => {
    await serve('other', 5, same);
    await serve('made', 100, same);
    await space.configure('scope', [made(), made({}, 'other')], { job: { guards: { scope: 'job' } } });
    await space.runWell('scope');
    await serve('made', 50, same);
    await serve('other', 5, (n) => ({ n: n + 1 }));
    const { code, report } = await space.run('scope');
    expect([code, report.jobs[0]?.streams.map(({ status }) => status)]).toEqual([3, ['held', 'held']]);
  });
});

describe('a held run', () => {
  it('is replaced by the next held run, and is removed when it is discarded or approved', async () => {
    const { run: first } = await heldDay('held', 50, (n) => ({ n: n === 0 ? -1 : n }));
    const { run: second } = await heldRun('held');
    expect(second).not.toBe(first);
    expect(await runFolders('held')).toEqual([second]);
    const status = JSON.parse((await space.cdsync(['status', 'held.json', '--json'])).stdout);
    expect(status.streams[0]).toMatchObject({
      checkpoint: null,
      held: { run_id: second, findings: [{ guard: 'max_deleted' }, { guard: 'max_changed' }] },
    });
    expect((await space.cdsync(['status', 'held.json'])).stdout).toContain(`cdsync approve held.json ${second}`);
    expect((await space.cdsync(['discard', 'held.json', second])).code).toBe(0);
    expect(await runFolders('held')).toEqual([]);
    expect(await rows('held')).toBe(100);

    const { run: third, stream } = await heldRun('held');
    const { code, stdout } = await space.cdsync(['approve', 'held.json', third, '--json']);
    expect(code).toBe(0);
    const [job] = JSON.parse(stdout).jobs;
    expect(job).toMatchObject({ run_id: third, sequence: 2, status: 'ok' });
    expect(job.streams[0]).toMatchObject({ rows: 50, deleted: 50, updated: 1 });
    expect(stream).toMatchObject({ deleted: 50, updated: 1 });
    expect(await rows('held')).toBe(50);
    expect((await space.manifest('held', 'made')).rows).toBe(50);
    expect(await runFolders('held')).toEqual([]);
    expect(streamOf(await space.runWell('held'), 'made').unchanged).toBe(50);
    const again = await space.cdsync(['approve', 'held.json', third]);
    expect([again.code, again.stderr]).toEqual([2, expect.stringContaining('no stream is held')]);
  });

  it('can be approved although the service returned no records, and is removed once a later run commits', async () => {
    const { run } = await heldDay('emptied', 0, same);
    await serve('made', 100, (n) => ({ n: n === 0 ? -1 : n }));
    await space.runWell('emptied');
    expect((await space.cdsync(['approve', 'emptied.json', run])).code).toBe(2);
    await serve('made', 0, same);
    const { run: other, stream } = await heldRun('emptied');
    expect(stream.error).toMatchObject({ code: 'empty_answer' });
    expect((await space.cdsync(['approve', 'emptied.json', other])).code).toBe(0);
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

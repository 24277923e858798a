import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  const records = Array.from({ length: 640 }, (_, index) =>
    JSON.stringify({ id: `p${index}`, index_id: 'made', attributes: { part: `v${index % 64}`, n: index } }),
  );
  await space.control('profiles', { index: 'made', records, filterable: ['part'] });
});
afterAll(() => space.close());

const values = Array.from({ length: 64 }, (_, index) => `v${index}`);
const made = {
  name: 'made',
  source: 'index_profiles',
  index: 'made',
  page_size: 5,
  partition_by: { attribute: 'part', values },
};
const retry = { patience: '3s', max_delay_ms: 200 };

describe('one address that always fails', () => {
  it('fails its stream after all other partitions are read, and the message names the partition', async () => {
    await space.configure('one', [made], { service: { retry } });
    await space.control('faults', { kind: 'status', status: 500, match: '/part\\]=v7(&|$)/' });
    await space.control('stats/reset');
    const { code, report } = await space.run('one');
    expect(code).toBe(1);
    const stream = streamOf(report.jobs[0] as never, 'made');
    expect(stream.error?.code).toBe('service_unavailable');
    expect(stream.error?.message).toContain('part=v7');
    expect(stream.pages).toBe(63 * 2);
    await space.clearFaults();
    await space.control('stats/reset');
    const second = streamOf(await space.runWell('one'), 'made');
    expect(second).toMatchObject({ rows: 640, duplicates: 0 });
    // The totals before and after, and the two pages of that partition.
    expect(await space.operations()).toMatchObject({ 'GET /api/indexes/{id}/profiles': 3 });
    const rows = await space.query('one', 'select count(*)::int as n, sum(n)::int as sum from made');
    expect(rows).toEqual([{ n: 640, sum: (639 * 640) / 2 }]);
  });

  it('does not hide that another partition has ignored the filter: no later run keeps its records', async () => {
    const records = Array.from({ length: 64 }, (_, index) =>
      JSON.stringify({ id: `p${index}`, attributes: { part: `v${index % 8}`, kind: index < 32 ? 'x' : 'y' } }),
    );
    await space.control('profiles', { index: 'kinds', records, filterable: ['part', 'kind'] });
    const partition_by = { attribute: 'part', values: values.slice(0, 8) };
    const kinds = { ...made, name: 'kinds', index: 'kinds', page_size: 100, filter: { kind: 'x' }, partition_by };
    await space.configure('kinds', [kinds], { service: { retry: { patience: '1s', max_delay_ms: 100 } } });
    await space.control('faults', { kind: 'status', status: 500, match: '/part\\]=v3(&|$)/' });
    await space.control('faults', { kind: 'slow', delay_ms: 4000, match: '/part\\]=v5(&|$)/' });
    await space.control('faults', { kind: 'ignore_filter', match: '/part\\]=v5(&|$)/' });
    const { code, report } = await space.run('kinds');
    expect([code, streamOf(report.jobs[0] as never, 'kinds').error?.code]).toEqual([1, 'filter_ignored']);
    await space.clearFaults();
    expect(streamOf(await space.runWell('kinds'), 'kinds')).toMatchObject({ rows: 32, duplicates: 0 });
    expect(await space.query('kinds', "select count(*)::int as n from kinds where kind <> 'x'")).toEqual([{ n: 0 }]);
  }, 180_000);

  it('that is one of many ids leaves the other chunks read, and the message names its chunk', async () => {
    const ids = Array.from({ length: 640 }, (_, index) => `p${index}`);
    const stream = { name: 'asked', source: 'profiles', index: 'made', ids };
    await space.configure('ids', [stream], { service: { retry } });
    await space.control('faults', { kind: 'status', status: 500, match: '/profiles/p333' });
    const { code, report } = await space.run('ids');
    expect(code).toBe(1);
    const failed = streamOf(report.jobs[0] as never, 'asked');
    expect(failed.error?.message).toContain('ids 201 to 400: ');
    expect(failed.rows + failed.pages).toBe(3);
    await space.clearFaults();
    await space.control('stats/reset');
    expect(streamOf(await space.runWell('ids'), 'asked')).toMatchObject({ rows: 640, inserted: 640 });
    expect(await space.operations()).toMatchObject({ 'GET /api/indexes/{id}/profiles/{profile-id}': 200 });
  });

  it('is not named by the value of an attribute that a rule hides', async () => {
    const columns = { part: { mask: 'all' } };
    await space.configure('hidden', [{ ...made, columns }], { service: { retry } });
    await space.control('faults', { kind: 'status', status: 500, match: '/part\\]=v7(&|$)/' });
    const { report } = await space.run('hidden');
    const { error } = streamOf(report.jobs[0] as never, 'made');
    expect(error?.message).toContain('partition part: ');
    expect(error?.message).not.toContain('v7');
    await space.clearFaults();
  });

  it('counts in each report: the requests of this process, and those of all processes of the reading', async () => {
    await space.configure('counted', [made], { service: { retry: { patience: '1s', max_delay_ms: 200 } } });
    await space.control('stats/reset');
    await space.control('faults', { kind: 'status', status: 500, match: '/part\\]=v7(&|$)/' });
    let [sum, pages] = [0, 0];
    for (let process = 1; process <= 4; process += 1) {
      if (process === 4) await space.clearFaults();
      const { report } = await space.run('counted');
      const stream = streamOf(report.jobs[0] as never, 'made');
      const own = stream.process ?? stream;
      sum += own.requests;
      pages += own.pages;
      expect([process, stream.requests, stream.pages]).toEqual([process, sum, pages]);
      expect(stream.process === undefined).toBe(process === 1);
      const sent = Object.values(await space.operations()).reduce((all, each) => all + each, 0);
      expect([process, sum]).toEqual([process, sent]);
    }
    expect(pages).toBe(128);
  });
});

describe('a reading that no later run can complete', () => {
  it('loses its private folder when its run ends; one that can be resumed keeps its own', async () => {
    const circle = { name: 'circle', source: 'index_profiles', index: 'loyalty_members', page_size: 3 };
    await space.configure('folders', [made, circle], { service: { retry: { patience: '1s', max_delay_ms: 200 } } });
    await space.control('faults', { kind: 'status', status: 500, match: '/part\\]=v7(&|$)/' });
    await space.control('faults', { kind: 'repeat_token', match: '/limit=3(&|$)/' });
    const { code, report } = await space.run('folders');
    const streams = report.jobs[0]?.streams.map(({ name, error }) => [name, error?.code]);
    expect([code, streams]).toEqual([
      1,
      [
        ['made', 'service_unavailable'],
        ['circle', 'page_loop'],
      ],
    ]);
    const runs = join(space.jobFolder('folders'), '.cdsync', 'runs');
    const [run = ''] = await readdir(runs);
    expect(await readdir(join(runs, run, 'streams'))).toEqual(['made']);
    await space.clearFaults();
    await space.control('stats/reset');
    const { resumed, streams: again } = await space.runWell('folders');
    expect([resumed, again.map(({ name, status }) => [name, status])]).toEqual([
      true,
      [
        ['made', 'ok'],
        ['circle', 'ok'],
      ],
    ]);
    expect(await space.query('folders', 'select count(*)::int as n from made')).toEqual([{ n: 640 }]);
    expect(await readdir(runs)).toEqual([]);
  });
});

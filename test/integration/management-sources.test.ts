import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { requestControl } from '../fixtures/control.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  // A separate test covers the budget of 10 requests a second; here it would only slow down everything.
  space = await Workspace.open({ profiles: 100, rateLimits: { management: 0 } });
});
afterAll(() => space.close());

const service = { rate_limits: { management: 1000 } };
const since = new Date(Date.now() - 90 * 86_400_000).toISOString().slice(0, 10);
const streams = [
  { name: 'audit', source: 'audit_events', since },
  { name: 'campaigns', source: 'campaigns', page_size: 7 },
  { name: 'drafts', source: 'campaign_drafts' },
  { name: 'segments', source: 'segments' },
  { name: 'ingests', source: 'ingest_jobs', since },
  { name: 'runs', source: 'workflow_runs', since, page_size: 9 },
];
const lists: Record<string, string> = {
  audit: 'audit_events',
  campaigns: 'campaigns',
  drafts: 'campaign_drafts',
  segments: 'segments',
  ingests: 'ingest_jobs',
  runs: 'workflow_runs',
};

interface ListChange {
  inserted: number;
  updated: number;
  deleted: number;
  total: number;
}

async function passDays(days: number): Promise<Record<string, ListChange>> {
  return ((await space.control('change', { days })) as { management: Record<string, ListChange> }).management;
}

describe('sources of the Management API', () => {
  it('return everything at first, and then exactly the changes of the days since the last run', async () => {
    await space.configure('all', streams, { service });
    const first = await space.runWell('all');
    expect(streamOf(first, 'audit').rows).toBe(2400);
    for (const days of [1, 2]) {
      const changed = await passDays(days);
      const next = await space.runWell('all');
      for (const [name, list] of Object.entries(lists)) {
        const { inserted, updated, deleted, total } = changed[list] as ListChange;
        expect([name, streamOf(next, name)]).toMatchObject([
          name,
          { inserted, updated, deleted, rows: total, duplicates: expect.any(Number) },
        ]);
      }
    }
    const { files } = await space.manifest('all', 'audit');
    expect(files.length).toBeGreaterThanOrEqual(3);
    for (const { name, status, inserted, updated, deleted } of (await space.runWell('all')).streams)
      expect([name, status, inserted, updated, deleted]).toEqual([name, 'ok', 0, 0, 0]);
    // A slow reading has several parts; one without records has none.
    expect((await space.manifest('all', 'audit')).files).toEqual(files);
    expect((await space.cdsync(['verify', 'all.json'])).code).toBe(0);
  });

  it('read only the new records of a long history', async () => {
    const again = streamOf(await space.runWell('all'), 'audit');
    expect(again.requests).toBeLessThan(4);
    await space.configure('wide', [{ name: 'audit', source: 'audit_events', since }], { service });
    expect(streamOf(await space.runWell('wide'), 'audit').requests).toBeGreaterThan(12);
  });

  it('read the missing records when `since` is set to an earlier time', async () => {
    const from = (days: number) => [
      { name: 'audit', source: 'audit_events', since: new Date(Date.now() - days * 86_400_000).toISOString() },
    ];
    await space.configure('later', from(10), { service });
    const few = streamOf(await space.runWell('later'), 'audit').rows;
    await space.configure('later', from(90), { service });
    const all = streamOf(await space.runWell('later', []), 'audit');
    expect(few).toBeLessThan(700);
    expect(all.rows).toBe((await space.query('all', 'from audit')).length);
    expect(all.inserted).toBe(all.rows - few);
  });

  it('find late events once, inside the lag only', async () => {
    await space.configure('late', [{ name: 'audit', source: 'audit_events', since, lag_ms: 3_600_000 }], { service });
    const { rows } = streamOf(await space.runWell('late'), 'audit');
    const ago = (minutes: number) => ({ happened_at: new Date(Date.now() - minutes * 60_000).toISOString() });
    await space.control('audit', { events: [ago(10), ago(50), ago(120)] });
    expect(streamOf(await space.runWell('late'), 'audit')).toMatchObject({ inserted: 2, rows: rows + 2 });
    expect(streamOf(await space.runWell('late'), 'audit')).toMatchObject({ inserted: 0, rows: rows + 2 });
    const [twice] = await space.query('late', 'select count(*) - count(distinct event_id) as twice from audit');
    expect(Number(twice?.twice)).toBe(0);
  });

  it('are read again for a span of time, or altogether', async () => {
    await space.configure(
      'again',
      [
        { name: 'audit', source: 'audit_events', since, lag_ms: 0 },
        { name: 'segments', source: 'segments' },
      ],
      { service },
    );
    const { rows } = streamOf(await space.runWell('again'), 'audit');
    const ago = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
    await space.control('audit', { events: [{ happened_at: ago(20) }, { happened_at: ago(40) }] });
    expect(streamOf(await space.runWell('again'), 'audit').inserted).toBe(0);
    const span = await space.runWell('again', ['--from', ago(30), '--to', ago(10)]);
    expect(span.streams.map(({ name, inserted }) => [name, inserted])).toEqual([['audit', 1]]);
    expect(streamOf(await space.runWell('again', ['--full']), 'audit')).toMatchObject({ inserted: 1, rows: rows + 2 });
    const state = async () =>
      JSON.parse((await space.cdsync(['state', 'show', 'again.json', '--json'])).stdout).streams;
    expect((await state())[0]).toMatchObject({ name: 'audit', key: ['event_id'], rows: rows + 2, covered: [{}] });
    await space.cdsync(['state', 'reset', 'again.json', '--stream', 'audit']);
    expect((await state())[0]).toMatchObject({ rows: rows + 2, covered: [] });
    await space.control('audit', { events: [{ happened_at: ago(60) }] });
    expect(streamOf(await space.runWell('again'), 'audit')).toMatchObject({ inserted: 1, rows: rows + 3 });
    expect((await space.cdsync(['state', 'reset', 'again.json', '--stream', 'adit'])).code).toBe(2);
    expect((await space.run('again', ['--from', 'never'])).code).toBe(2);
    expect((await space.run('again', ['--from', ago(1), '--stream', 'segments'])).code).toBe(2);
  });

  it('lose nothing if our clock and that of the service differ', async () => {
    await space.configure('clocks', [{ name: 'audit', source: 'audit_events', since }], { service });
    await space.runWell('clocks');
    // The service's clock is half a day ahead of ours, and its records continue from there.
    await space.control('time', { advance_ms: 43_200_000 });
    const ahead = (await passDays(1)).audit_events as ListChange;
    expect(streamOf(await space.runWell('clocks'), 'audit')).toMatchObject({ rows: ahead.total, deleted: 0 });
    await space.control('audit', { events: [{ happened_at: new Date(Date.now() + 3_600_000).toISOString() }] });
    expect(streamOf(await space.runWell('clocks'), 'audit')).toMatchObject({ inserted: 1, rows: ahead.total + 1 });
    await space.control('time', { advance_ms: -43_200_000 });
    const behind = streamOf(await space.runWell('clocks'), 'audit');
    expect(behind).toMatchObject({ inserted: 0, rows: ahead.total + 1 });
  });

  it('follow unfinished runs and jobs by id until they have ended', async () => {
    const [open] = await space.query('all', "select count(*)::int as open from runs where state = 'in progress'");
    expect(open).toEqual({ open: 1 });
    await space.configure(
      'follow',
      [
        { name: 'runs', source: 'workflow_runs', since, lag_ms: 0 },
        { name: 'ingests', source: 'ingest_jobs', since, lag_ms: 0 },
      ],
      { service },
    );
    await space.runWell('follow');
    await passDays(1);
    await space.runWell('follow');
    const states = await space.query(
      'follow',
      'select state, count(*)::int as runs from runs where type is not null group by 1 order by 1',
    );
    expect(states.find(({ state }) => state === 'in progress')).toEqual({ state: 'in progress', runs: 1 });
    const [unended] = await space.query(
      'follow',
      "select count(*)::int as open from ingests where tables[1].state = 'in progress'",
    );
    expect(unended).toEqual({ open: 1 });
  });

  it('stay within ten requests a second', async () => {
    const strict = await Workspace.open({ profiles: 10 });
    try {
      await strict.configure('budget', [
        { name: 'audit', source: 'audit_events', since },
        { name: 'ingests', source: 'ingest_jobs', since },
      ]);
      const report = await strict.runWell('budget');
      expect(report.streams.map(({ throttled }) => throttled)).toEqual([0, 0]);
      const stats = (await (await requestControl(strict.service, 'stats')).json()) as {
        peak_per_second: Record<string, { management: number }>;
      };
      expect(stats.peak_per_second.acme?.management).toBeLessThanOrEqual(10);
      expect(report.streams.reduce((sum, { requests }) => sum + requests, 0)).toBeGreaterThan(20);
    } finally {
      await strict.close();
    }
  }, 60_000);
});

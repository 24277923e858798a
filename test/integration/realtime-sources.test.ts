import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 4000 });
});
afterAll(() => space.close());

const vip = { name: 'vip', source: 'segment_members', segment: 'seg-vip' };
const ofVip = { sql: 'select profile_id from vip' };

interface RealtimeChange {
  collections: Record<string, { inserted: number; updated: number; deleted: number; total: number }>;
  segments: Record<string, { entered: number; left: number; total: number }>;
}

async function passDays(days: number): Promise<RealtimeChange> {
  return ((await space.control('change', { days })) as { realtime: RealtimeChange }).realtime;
}

describe('real-time sources', () => {
  it('add members that entered a segment, delete those that left, and read the profiles of all members', async () => {
    await space.configure('members', [
      vip,
      { name: 'gold', source: 'segment_members', segment: 'seg-gold', page_size: 10 },
      { name: 'profiles', source: 'realtime_profiles', collection: 'col-1', ids: ofVip },
      { name: 'memberships', source: 'profile_segments', collection: 'col-1', ids: ofVip, page_size: 1 },
    ]);
    await space.control('faults', { kind: 'members_paged', match: 'seg-gold' });
    const first = await space.runWell('members');
    const { segments } = await passDays(20);
    const second = await space.runWell('members');
    for (const [name, segment] of [
      ['vip', 'seg-vip'],
      ['gold', 'seg-gold'],
    ] as const) {
      const { entered, left, total } = segments[segment] ?? { entered: -1, left: -1, total: -1 };
      expect(streamOf(second, name)).toMatchObject({ inserted: entered, deleted: left, rows: total });
    }
    expect(segments['seg-gold']?.entered).toBeGreaterThan(0);
    expect(streamOf(first, 'gold').pages).toBeGreaterThan(5);
    const members = await space.query('members', 'select profile_id from vip order by 1');
    expect(await space.query('members', 'select profile_id from profiles order by 1')).toEqual(members);
    expect(streamOf(second, 'profiles')).toMatchObject({ inserted: streamOf(second, 'vip').inserted, missing: 0 });
    const [memberships] = await space.query(
      'members',
      "select count(*) filter (segment_id = 'seg-vip')::int as vips, count(distinct profile_id)::int as profiles from memberships",
    );
    expect(memberships).toEqual({ vips: members.length, profiles: members.length });
  });

  it('take one sample of the statistics a run, and keep the buckets of the past', async () => {
    await space.configure('series', [
      { name: 'stats', source: 'collection_stats', collection: 'col-1' },
      { name: 'days', source: 'collection_history', collection: 'col-1' },
      { name: 'hours', source: 'collection_history', collection: 'col-1', scale: 'hour' },
    ]);
    await space.runWell('series');
    const { collections } = await passDays(5);
    const second = await space.runWell('series');
    expect(streamOf(second, 'stats')).toMatchObject({ rows: 2, inserted: 1, unchanged: 1 });
    expect((await space.manifest('series', 'stats')).files.length).toBe(2);
    expect(streamOf(second, 'days')).toMatchObject({ deleted: 0 });
    const total = collections['col-1']?.total;
    const last = (stream: string, column: string, order: string) =>
      space.query('series', `select ${column}::int as total from ${stream} order by ${order} desc limit 1`);
    expect(await last('stats', 'total_profiles', 'sampled_at')).toEqual([{ total }]);
    expect(await last('days', '"count"', 'bucket')).toEqual([{ total }]);
    expect(await last('hours', '"count"', 'bucket')).toEqual([{ total }]);
    const { code, stdout } = await space.cdsync(['verify', 'series.json']);
    expect([code, stdout]).toEqual([0, expect.stringContaining('stats: 2 rows, 2 files')]);
  });

  it('find profiles by keys from a list, a file and a query, by POST and by GET', async () => {
    await space.configure('seed', [
      vip,
      { name: 'profiles', source: 'realtime_profiles', collection: 'col-1', ids: ofVip },
    ]);
    await space.runWell('seed');
    const [one, two] = await space.query(
      'seed',
      'select profile_id, links.email[1] as email, links.loyalty_id[1] as loyalty_id from profiles order by profile_id limit 2',
    );
    await writeFile(
      join(space.folder, 'keys.csv'),
      `email,loyalty_id\n${one?.email},${one?.loyalty_id}\n${two?.email},\nabsent@example.com,\n`,
    );
    const source = { source: 'realtime_profiles', collection: 'col-1' };
    await space.configure('lookups', [
      {
        name: 'listed',
        ...source,
        keys: [{ email: one?.email }, { loyalty_id: two?.loyalty_id }, { loyalty_id: one?.loyalty_id }],
      },
      { name: 'filed', ...source, keys: { file: 'keys.csv' }, enrich: true },
      { name: 'got', ...source, keys: { file: 'keys.csv' }, method: 'get' },
    ]);
    const report = await space.runWell('lookups');
    const wanted = [{ profile_id: one?.profile_id }, { profile_id: two?.profile_id }];
    for (const name of ['listed', 'filed', 'got'])
      expect(await space.query('lookups', `select profile_id from ${name} order by 1`)).toEqual(wanted);
    expect(streamOf(report, 'listed')).toMatchObject({ duplicates: 1, missing: 0 });
    expect(streamOf(report, 'filed')).toMatchObject({ missing: 1, rejected: 0 });
    const enriched = await space.query(
      'lookups',
      "select path from cdsync.columns where stream = 'filed' except select path from cdsync.columns where stream = 'got'",
    );
    expect(enriched.length).toBeGreaterThan(0);
  });

  it('keep the listed profiles only: a profile that is no longer listed is deleted', async () => {
    const ids = (await space.query('seed', 'select profile_id from vip order by 1 limit 3')).map(
      ({ profile_id }) => profile_id,
    );
    const profiles = (list: unknown) => [{ name: 'some', source: 'realtime_profiles', collection: 'col-1', ids: list }];
    await space.configure('listed', profiles([...ids, 'p-absent']));
    expect(streamOf(await space.runWell('listed'), 'some')).toMatchObject({ rows: 3, missing: 1 });
    await space.configure('listed', profiles(ids.slice(1)));
    expect(streamOf(await space.runWell('listed'), 'some')).toMatchObject({ rows: 2, deleted: 1, unchanged: 2 });
  });
});

describe('a segment whose page tokens point to its start', () => {
  const gold = { name: 'gold', source: 'segment_members', segment: 'seg-gold', page_size: 10 };

  it('is read with one large page, and ends', async () => {
    await space.configure('circle', [gold]);
    await space.control('faults', { kind: 'ignored_token', match: '/segments/' });
    const { rows, pages } = streamOf(await space.runWell('circle'), 'gold');
    expect(pages).toBeLessThan(5);
    await space.clearFaults();
    expect(streamOf(await space.runWell('circle'), 'gold')).toMatchObject({ rows, unchanged: rows });
  });

  it('fails where members are missing still, and the snapshot stays', async () => {
    await space.configure('incomplete', [gold]);
    const { rows } = streamOf(await space.runWell('incomplete'), 'gold');
    await space.control('faults', { kind: 'ignored_token', match: '/segments/' });
    await space.control('faults', { kind: 'wrong_total', match: '/segments/', delta: 7 });
    const { code, report } = await space.run('incomplete');
    expect([code, report.jobs[0]?.streams[0]?.error?.code]).toEqual([1, 'members_incomplete']);
    expect(report.jobs[0]?.streams[0]?.error?.message).toContain(`${rows} members of ${rows + 7}`);
    await space.clearFaults();
    expect(await space.query('incomplete', 'select count(*)::int as rows from gold')).toEqual([{ rows }]);
  });
});

describe('a stream fails, and its error names the cause', () => {
  async function failure(job: string, streams: Record<string, unknown>[]) {
    await space.configure(job, streams);
    const { code, report } = await space.run(job);
    return { code, streams: report.jobs[0]?.streams ?? [] };
  }

  it('when a segment has vanished', async () => {
    await space.configure('vanished', [vip]);
    const { rows } = streamOf(await space.runWell('vanished'), 'vip');
    await space.control('realtime', { segment: 'seg-vip', exists: false });
    const { code, report } = await space.run('vanished');
    await space.control('realtime', { segment: 'seg-vip', exists: true });
    const error = report.jobs[0]?.streams[0]?.error;
    expect([code, error?.code]).toEqual([1, 'not_found']);
    expect(error?.message).toContain('/segments/{segment-id}/profiles');
    expect(await space.query('vanished', 'select count(*)::int as rows from vip')).toEqual([{ rows }]);
  });

  it('when real-time features are not enabled', async () => {
    await space.control('realtime', { tenant: space.service.tenantId, enabled: false });
    const { streams } = await failure('disabled', [
      vip,
      { name: 'stats', source: 'collection_stats', collection: 'col-1' },
    ]);
    await space.control('realtime', { tenant: space.service.tenantId, enabled: true });
    for (const { error } of streams) expect(`${error?.message} ${error?.hint}`).toMatch(/real-time features/i);
  });

  it('when a permission is missing for one of several streams: the others finish', async () => {
    await space.control('keys', {
      action: 'create',
      name: 'narrow',
      permissions: ['profile-collections:read', 'pii:read'],
    });
    const { token } = (await space.control('keys', { action: 'issue', key: 'narrow' })) as { token: string };
    await space.configure('narrow', [vip, { name: 'stats', source: 'collection_stats', collection: 'col-1' }]);
    const { code, report } = await space.run('narrow', [], { CDS_TOKEN: token });
    expect(code).toBe(5);
    const [failed, done] = report.jobs[0]?.streams ?? [];
    expect(failed?.error).toMatchObject({ code: 'forbidden' });
    expect(failed?.error?.message).toMatch(/segments\/\{segment-id\}\/profiles.*real-time-segments:read/s);
    expect(done?.status).toBe('ok');
  });

  it('when a file of keys is broken, with its line and without a value', async () => {
    await writeFile(join(space.folder, 'torn.csv'), 'email,loyalty_id\na@example.com,1\nsecret@example.com,1,2\n');
    const { code, streams } = await failure('torn', [
      { name: 'found', source: 'realtime_profiles', collection: 'col-1', keys: { file: 'torn.csv' } },
    ]);
    expect([code, streams[0]?.error?.code]).toEqual([1, 'key_file_invalid']);
    expect(streams[0]?.error?.message).toMatch(/torn\.csv:3/);
    expect(JSON.stringify(streams)).not.toContain('secret');
  });

  it('when the stream that another is made of fails', async () => {
    const { code, streams } = await failure('dependent', [
      { name: 'gone', source: 'segment_members', segment: 'seg-none' },
      {
        name: 'profiles',
        source: 'realtime_profiles',
        collection: 'col-1',
        ids: { sql: 'select profile_id from gone' },
      },
      { name: 'counted', source: 'sql', key: ['n'], query: 'select count(*) as n from profiles' },
    ]);
    expect(code).toBe(1);
    expect(streams.map(({ error }) => error?.code)).toEqual(['not_found', 'dependency', 'dependency']);
  });
});

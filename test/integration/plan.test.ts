import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';
import type { JobPlan, PlannedStream } from '../../src/engine/plan/job-plan.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 2000 });
});
afterAll(() => space.close());

type Row = Record<string, unknown>;

async function plan(
  name: string,
  words: readonly string[] = [],
): Promise<JobPlan & { code: number | null; text: string }> {
  const { code, stdout, stderr } = await space.cdsync(['plan', `${name}.json`, '--json', ...words]);
  if (stdout === '') throw new Error(stderr);
  return { ...(JSON.parse(stdout) as JobPlan), code, text: stdout + stderr };
}

function planned({ streams }: JobPlan, name: string): PlannedStream {
  const found = streams.find((stream) => stream.name === name);
  if (found === undefined) throw new Error(`the plan has no stream ${name}`);
  return found;
}

/** Every file and folder below a folder, with properties that would show any change. */
async function picture(folder: string): Promise<string[]> {
  const entries = await entriesBelow(folder);
  const lines = entries.map(async (entry) => {
    const path = join(entry.parentPath, entry.name);
    if (entry.isSymbolicLink()) return `${path} -> ${await readlink(path)}`;
    const { mtimeMs, mode, ino } = await stat(path);
    const content = entry.isFile()
      ? createHash('sha256')
          .update(await readFile(path))
          .digest('hex')
      : 'folder';
    return `${path} ${mode.toString(8)} ${ino} ${mtimeMs} ${content}`;
  });
  return (await Promise.all(lines)).sort();
}

async function serve(index: string, records: readonly Row[]): Promise<void> {
  const lines = records.map((attributes, n) => JSON.stringify({ id: `r${n}`, index_id: index, attributes }));
  await space.control('profiles', { index, records: lines });
}

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
const every: readonly Row[] = [
  members,
  { name: 'indexes', source: 'indexes' },
  { name: 'chosen', source: 'profiles', index: 'loyalty_members', ids: { sql: 'select id from members limit 15' } },
  { name: 'vip', source: 'segment_members', segment: 'seg-vip' },
  {
    name: 'vip_profiles',
    source: 'realtime_profiles',
    collection: 'col-1',
    ids: { sql: 'select profile_id from vip' },
  },
  { name: 'vip_segments', source: 'profile_segments', collection: 'col-1', ids: { sql: 'select profile_id from vip' } },
  { name: 'history', source: 'collection_history', collection: 'col-1' },
  { name: 'stats', source: 'collection_stats', collection: 'col-1' },
  { name: 'segments', source: 'segments' },
  { name: 'campaigns', source: 'campaigns' },
  { name: 'drafts', source: 'campaign_drafts' },
  { name: 'audit', source: 'audit_events' },
  { name: 'ingests', source: 'ingest_jobs' },
  { name: 'workflows', source: 'workflow_runs' },
  { name: 'tiers', source: 'sql', key: ['tier'], query: 'select tier, count(*) as rows from members group by tier' },
];

describe('a plan', () => {
  it('makes nothing, not even the storage folder', async () => {
    await space.configure('fresh', [members, { name: 'audit', source: 'audit_events' }]);
    const before = await picture(space.folder);
    const { status, code, sequence, streams, disk } = await plan('fresh');
    expect([status, code, sequence]).toEqual(['ok', 0, null]);
    expect(streams.map(({ snapshot_rows }) => snapshot_rows)).toEqual([null, null]);
    expect(disk.need.total).toBeGreaterThan(0);
    expect(existsSync(join(space.folder, 'data'))).toBe(false);
    expect(await picture(space.folder)).toEqual(before);
  });

  it('names once the unknown figures before the first run, streams that are read twice, and nothing of queries', async () => {
    const tiers = ['gold', 'silver'].map((tier) => ({ ...members, name: tier, filter: { tier } }));
    const query = { source: 'sql', key: ['id'], query: 'select id from members' };
    const lookups = ['first', 'second'].map((name) => ({
      ...{ name, source: 'profiles', index: 'loyalty_members', ids: { sql: 'select id from members limit 5' } },
    }));
    const streams = [members, ...tiers, ...lookups, { name: 'a', ...query }, { name: 'b', ...query }];
    await space.configure('doubled', streams);
    const { notes, streams: shown } = await plan('doubled');
    expect(notes).toEqual([
      'first, second: their requests depend on the records of members',
      'gold, silver: members reads the whole index loyalty_members too; read it once, and make them `sql` streams over members',
    ]);
    expect(shown.flatMap(({ error }) => error ?? [])).toEqual([]);
    const { stdout } = await space.cdsync(['plan', 'doubled.json']);
    const cells = (name: string) => (stdout.split('\n').find((line) => line.startsWith(`  ${name} `)) ?? '').trim();
    expect(cells('a')).toMatch(/^a +query over members .*- +- +-$/);
    expect(cells('first')).toMatch(/^first +query over members .*\?/);
  });

  it('leaves every byte of a storage folder as it was, whatever the sources', async () => {
    await space.configure('every', every);
    await space.runWell('every');
    const before = await picture(space.folder);
    const { status, streams } = await plan('every');
    expect([status, streams.map(({ error }) => error).filter(Boolean)]).toEqual(['ok', []]);
    expect(await picture(space.folder)).toEqual(before);
  });

  it('finds no change right after a run, whatever the source', async () => {
    const { streams } = await plan('every');
    // A sample of the statistics is a new row each time; the newest bucket of the history may have moved on.
    const steady = streams.filter(({ name, sample }) => sample !== null && !['stats', 'history'].includes(name));
    expect(steady.length).toBeGreaterThan(9);
    for (const { name, sample } of steady) {
      const { columns_added, columns_widened } = sample as NonNullable<PlannedStream['sample']>;
      expect([name, sample?.new, sample?.changed, columns_added, columns_widened]).toEqual([name, 0, 0, [], []]);
      expect([name, sample?.unchanged]).toEqual([name, sample?.records]);
    }
    expect(planned({ streams } as JobPlan, 'members').sample?.records).toBe(1000);
  });

  it('foretells the pages and requests that the run then needs', async () => {
    const foretold = await plan('every');
    const report = await space.runWell('every');
    for (const name of [
      'members',
      'indexes',
      'vip',
      'segments',
      'campaigns',
      'drafts',
      'audit',
      'ingests',
      'workflows',
      'chosen',
      'vip_profiles',
    ]) {
      const { requests } = planned(foretold, name);
      expect([name, requests]).toEqual([name, streamOf(report, name).requests]);
    }
  });

  it('finds new and changed rows, new columns and wider types, and shows no value', async () => {
    const rows = Array.from({ length: 400 }, (_, n) => ({ n, secret: `ann.${n}@example.com`, word: null }));
    await serve('made', rows);
    await space.configure('made', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
    await space.runWell('made');
    await serve('made', [
      ...rows
        .map((row) => (row.n < 20 ? { ...row, secret: `bob.${row.n}@example.com` } : row))
        .map((row) => (row.n === 30 ? { ...row, n: 30.5 } : row)),
      ...Array.from({ length: 10 }, (_, n) => ({ n: 1000 + n, word: 'first', extra: true })),
    ]);
    const result = await plan('made');
    const { sample, records, snapshot_rows } = planned(result, 'made');
    expect(sample).toEqual({
      records: 410,
      rejected: 0,
      new: 10,
      changed: 21,
      unchanged: 379,
      columns_added: [{ column: 'extra', type: 'BOOLEAN' }],
      columns_widened: [{ column: 'n', from: 'BIGINT', to: 'DOUBLE' }],
    });
    expect([records, snapshot_rows]).toEqual([410, 400]);
    expect(result.text).not.toContain('@example.com');
    const report = await space.runWell('made');
    const { inserted, updated, unchanged } = streamOf(report, 'made');
    expect([inserted, updated, unchanged]).toEqual([10, 21, 379]);
  });

  it('reports partitions that leave records out, and the pass that this costs', async () => {
    const partitioned = (values: readonly string[]) => [{ ...members, partition_by: { attribute: 'country', values } }];
    await space.configure('parts', partitioned(['US']));
    const some = planned(await plan('parts'), 'members');
    expect([some.reads, some.chains]).toEqual(['partitions', 2]);
    const report = await space.runWell('parts');
    expect(some.requests).toBe(streamOf(report, 'members').requests);
  });

  it('reads while a run is under way, and says so', async () => {
    await space.configure('busy', [members], { service: { page_size: 20 } });
    await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 40, share: 1 });
    const run = space.spawn(['run', 'busy.json', '--quiet']);
    try {
      while (!existsSync(join(space.jobFolder('busy'), '.cdsync', 'locks', 'job.json'))) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      const { running, code } = await plan('busy');
      expect([running?.pid, code]).toEqual([run.pid, 0]);
    } finally {
      await space.clearFaults();
      const gone = new Promise((resolve) => run.once('close', resolve));
      run.kill('SIGKILL');
      await gone;
    }
  });

  it('shows a held stream, and the checkpoint from which a run would resume', async () => {
    const rows = Array.from({ length: 100 }, (_, n) => ({ n }));
    await serve('guarded', rows);
    await space.configure('guarded', [{ name: 'guarded', source: 'index_profiles', index: 'guarded' }]);
    await space.runWell('guarded');
    await serve('guarded', rows.slice(0, 50));
    const { report } = await space.run('guarded');
    const { held } = planned(await plan('guarded'), 'guarded');
    expect(held).toMatchObject({ run_id: report.jobs[0]?.run_id, findings: [{ guard: 'max_deleted' }] });

    await space.configure('resumed', [{ ...members, page_size: 20 }], {
      job: { before: [{ start_workflow: { config_id: 'cg-1' } }] },
    });
    expect((await plan('resumed')).workflows).toMatchObject([{ config_id: 'cg-1', would_start: true }]);
    await space.configure('resumed', [{ ...members, page_size: 20 }]);
    await space.control('faults', { kind: 'status', match: 'next_token', after: 40, status: 503 });
    const cut = await space.run('resumed');
    await space.clearFaults();
    await space.configure('resumed', [{ ...members, page_size: 20 }], {
      job: { before: [{ start_workflow: { config_id: 'cg-1' } }] },
    });
    const result = await plan('resumed');
    expect(result.workflows).toMatchObject([{ would_start: false }]);
    const { resumes, pages } = planned(result, 'members');
    expect(resumes).toEqual({ run_id: cut.report.jobs[0]?.run_id, records: 820, pages: 41 });
    expect(pages).toBe(100 - 41);
  });

  it('fails like a run: for a refused stream, an ignored filter, nothing to ask for', async () => {
    await space.configure('refused', [{ name: 'indexes', source: 'indexes' }]);
    await space.control('faults', { kind: 'missing_permission', match: '/api/indexes' });
    const refused = await plan('refused');
    await space.clearFaults();
    expect([refused.code, refused.status, refused.streams[0]?.error]).toMatchObject([
      4,
      'failed',
      { code: 'forbidden' },
    ]);
    expect(refused.streams[0]?.reads).toBeNull();

    await space.configure('ignored', [members, { ...members, name: 'gold', filter: { tier: 'gold' } }]);
    await space.control('faults', { kind: 'ignore_filter', match: '/profiles' });
    const ignored = await plan('ignored');
    await space.clearFaults();
    expect([ignored.code, planned(ignored, 'gold').error?.code]).toEqual([1, 'filter_ignored']);
    expect(planned(ignored, 'members').error).toBeNull();

    await space.configure('absent', [{ name: 'chosen', source: 'profiles', index: 'loyalty_members', ids: [] }]);
    const noIds = await plan('absent');
    expect([noIds.code, planned(noIds, 'chosen').reads, planned(noIds, 'chosen').pages]).toEqual([0, 'keys', 0]);
  });

  it('compares nothing if another process has the published file open for writing, and says so', async () => {
    await space.configure('opened', [members]);
    await space.runWell('opened');
    const instance = await DuckDBInstance.create(join(space.jobFolder('opened'), 'opened.duckdb'));
    try {
      const { code, notes, streams } = await plan('opened');
      expect([code, streams[0]?.sample?.unchanged, streams[0]?.snapshot_rows]).toEqual([0, null, streams[0]?.total]);
      expect(notes).toEqual([expect.stringMatching(/^nothing is compared with the snapshot: .* cannot be opened/)]);
    } finally {
      instance.closeSync();
    }
  });

  it('sees rules for columns as a run does', async () => {
    const columns = {
      email: { hash: true, salt: 'a salt of some length' },
      first_name: { drop: true },
      city: { rename: 'town' },
      points: { track: false },
      zip: { type: 'text' },
    };
    await space.configure('ruled', [{ ...members, columns }]);
    await space.runWell('ruled');
    const { sample } = planned(await plan('ruled'), 'members');
    expect(sample).toMatchObject({
      new: 0,
      changed: 0,
      unchanged: sample?.records,
      columns_added: [],
      columns_widened: [],
    });
  });
});

describe('cdsync check', () => {
  it('tries one partition, because the service may not filter by its attribute', async () => {
    const partition_by = { attribute: 'email', values: ['ann@example.com'] };
    await space.configure('parted', [
      { name: 'members', source: 'index_profiles', index: 'loyalty_members', partition_by },
      { name: 'tiers', source: 'sql', key: ['tier'], query: 'select tier, absent from members' },
    ]);
    const { code, stdout } = await space.cdsync(['check', 'parted.json', '--json']);
    expect([code, JSON.parse(stdout).streams]).toMatchObject([
      1,
      [
        { name: 'members', untried: null, error: { code: 'bad_request' } },
        { name: 'tiers', untried: expect.stringContaining('tested by the run'), error: null },
      ],
    ]);
    expect(stdout).not.toContain('ann@');
  });
});

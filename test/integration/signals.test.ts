import { cp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/core/run-report.js';
import { jobFacts, reportProblems } from '../fault/held-report.js';
import { type Strike, strikePreload, strikeVariables } from '../fault/strike.js';
import { ended, Workspace } from '../fixtures/workspace.js';

const streams = [
  { name: 'members', source: 'index_profiles', index: 'loyalty_members' },
  { name: 'tiers', source: 'sql', key: ['tier'], query: 'select tier, count(*) as n from members group by tier' },
];
const names = streams.map(({ name }) => name);
const destinations = [{ name: 'there', connector: 'duckdb', path: './data/there.duckdb', streams: ['members'] }];

let space: Workspace;
/** Everything that readers see after an undisturbed run over the day of changes. */
let truth: unknown;

const storage = (name = 'data') => join(space.folder, name);
const base = () => storage('base');
const properties = () =>
  jobFacts(space.jobFolder('job'), { job: 'job', streams: names, destination: join(storage(), 'there.duckdb') });

/** Everything that readers see, without what differs from run to run. */
async function visible(): Promise<unknown> {
  const rows = await space.query(
    'job',
    'SELECT * EXCLUDE (_run_id, _synced_at, _first_seen_at) FROM members ORDER BY id',
  );
  const changes = await space.query('job', 'SELECT _op, id FROM members__changes ORDER BY ALL');
  const { delivered, sequence } = await properties();
  return {
    rows,
    changes,
    delivered,
    sequence,
    tiers: await space.query('job', 'SELECT tier, n FROM tiers ORDER BY 1'),
  };
}

async function restore(): Promise<void> {
  await rm(storage(), { recursive: true, force: true });
  await cp(base(), storage(), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
}

/** Starts a run that is struck at a step. */
async function struck(strike: Strike) {
  const variables = strikeVariables(storage(), join(space.folder, 'steps.txt'), strike);
  const child = space.spawn(['run', 'job.json', '--json'], { NODE_OPTIONS: strikePreload.join(' '), ...variables });
  const { code, stdout, stderr } = await ended(child);
  return { code, stderr, report: JSON.parse(stdout) as RunReport };
}

const signalled = (signal: string, { at, when }: Pick<Strike, 'at' | 'when'>) =>
  struck({ at, when, action: `signal ${signal}` });

beforeAll(async () => {
  space = await Workspace.open({ profiles: 300 });
  await space.configure('job', streams, { job: { guards: { max_changed: '1000%' }, destinations } });
  await space.runWell('job');
  await space.control('change', { days: 1 });
  await cp(storage(), base(), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
  await space.runWell('job');
  truth = await visible();
});
afterAll(() => space.close());

const read = 'job/.cdsync/runs/RUN/streams';

/** Instants before the commit: nothing moves. */
const early: readonly (readonly [string, string, Strike['when'], string])[] = [
  ['while it repairs the remains of an earlier run', 'sql DETACH store #1', 'before', 'SIGTERM'],
  ['while it reads', `datasync ${read}/members/journal.jsonl #1`, 'before', 'SIGHUP'],
  ['after the last page', `datasync ${read}/members/journal.jsonl #2`, 'after', 'SIGTERM'],
  ['while it compares', `sync ${read}/members/.changes.parquet.tmp #1`, 'before', 'SIGINT'],
  ['while a query runs', `mkdir ${read}/tiers/parts #1`, 'before', 'SIGTERM'],
  ['before the transaction', 'sql DROP VIEW temp."members" #1', 'after', 'SIGHUP'],
  ['in the transaction', `sql DELETE FROM store."cdsync"."columns" WHERE stream = 'tiers' #1`, 'before', 'SIGTERM'],
];

/** Instants after the commit: the run finishes, and names the deliveries that it did not make. */
const late: typeof early = [
  ['while it commits', 'sql COMMIT #1', 'before', 'SIGTERM'],
  ['while it publishes Parquet files', 'rename job/parquet/members/manifest.json #1', 'before', 'SIGINT'],
  ['while it publishes the DuckDB file', 'symlink job/.job.duckdb.tmp #1', 'before', 'SIGHUP'],
  ['while it writes its report', 'rename job/reports/RUN.json #1', 'before', 'SIGTERM'],
  ['while it delivers', 'sql BEGIN TRANSACTION #3', 'before', 'SIGTERM'],
  ['while the destination commits', 'sql COMMIT #2', 'before', 'SIGINT'],
  ['after the destination has committed', 'sql COMMIT #2', 'after', 'SIGTERM'],
];

describe('a run that gets a signal', () => {
  it.each(early)('%s moves nothing, and says so', async (_, at, when, signal) => {
    await restore();
    const before = await properties();
    const { code, report, stderr } = await signalled(signal, { at, when });
    expect([code, report.status]).toEqual([130, 'interrupted']);
    expect(await properties()).toEqual(before);
    for (const { status, error } of report.jobs.flatMap((job) => job.streams))
      expect([status, error?.code]).toEqual(['skipped', 'interrupted']);
    expect(reportProblems(report, before, await properties())).toEqual([]);
    expect(stderr).toMatch(/next: cdsync run/);
    await space.runWell('job');
    expect(await visible()).toEqual(truth);
  });

  it.each(late)('%s has committed and published, and says so', async (_, at, when, signal) => {
    await restore();
    const before = await properties();
    const { code, report, stderr } = await signalled(signal, { at, when });
    const after = await properties();
    expect([code, report.status]).toEqual([130, 'interrupted']);
    expect([report.jobs[0]?.sequence, after.sequence, after.published?.sequence]).toEqual([2, 2, 2]);
    expect(report.jobs[0]?.streams.map(({ status }) => status)).toEqual(['ok', 'ok']);
    expect(report.jobs[0]?.destinations.map(({ name }) => name)).toEqual(['there']);
    expect(reportProblems(report, before, after)).toEqual([]);
    expect(stderr).toMatch(/next: cdsync (push|run)/);
    await space.cdsync(['push', 'job.json']);
    expect(await visible()).toEqual(truth);
  });

  it('is resumed without reading a page again', async () => {
    await restore();
    await signalled('SIGTERM', { at: `datasync ${read}/members/journal.jsonl #2`, when: 'after' });
    const { resumed, streams: again } = await space.runWell('job');
    expect([resumed, again[0]?.pages]).toEqual([true, 1]);
  });
});

describe('a run that cannot publish its committed snapshot', () => {
  it.each(['rename job/parquet/members/manifest.json #1', 'symlink job/.job.duckdb.tmp #1'])(
    'reports the commit, delivers nothing, and the next run publishes it: %s',
    async (at) => {
      await restore();
      const before = await properties();
      const { code, report, stderr } = await struck({ at, when: 'before', action: 'error EACCES' });
      const after = await properties();
      expect([code, report.status, report.jobs[0]?.sequence, after.sequence]).toEqual([5, 'partial', 2, 2]);
      for (const { status, updated, error } of report.jobs[0]?.streams ?? []) {
        expect([status, error?.code]).toEqual(['ok', 'storage_permission']);
        expect([error?.message, updated]).toEqual([
          expect.stringMatching(/^committed, but not published: /),
          expect.any(Number),
        ]);
      }
      expect(reportProblems(report, before, after)).toEqual([]);
      expect([report.jobs[0]?.destinations.map(({ status }) => status), after.delivered]).toEqual([
        ['not_tried'],
        before.delivered,
      ]);
      expect(stderr).toMatch(/give this user the rights that the message names, then: cdsync/);
      const { streams: again } = await space.runWell('job');
      expect(again.map(({ inserted, updated, deleted }) => inserted + updated + deleted)).toEqual([0, 0]);
      expect(await visible()).toEqual(truth);
    },
  );
});

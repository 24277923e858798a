import { readdir, readFile, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ended, streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 4000 });
});
afterAll(() => space.close());

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members', page_size: 500 };
const gold = {
  name: 'gold',
  source: 'index_profiles',
  index: 'loyalty_members',
  filter: { tier: 'gold' },
  page_size: 500,
};

async function until(condition: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    if (await condition()) return;
    await wait(25);
  }
  throw new Error('the condition was not met in time');
}

/** Starts a run that gets a checkpoint, and that a slow service keeps from ending. */
async function slowRun(name: string) {
  await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 60 });
  const child = space.spawn(['run', `${name}.json`, '--json', '--quiet']);
  const result = ended(child);
  const runs = join(space.jobFolder(name), '.cdsync', 'runs');
  await until(async () => {
    const [run] = await readdir(runs).catch(() => []);
    if (run === undefined) return false;
    const journal = await readFile(join(runs, run, 'streams', 'members', 'journal.jsonl'), 'utf8').catch(() => '');
    return journal.split('\n').length > 2;
  });
  // Requests hang, so the run does not end before the test wants it to, even on a fast machine.
  await space.control('faults', { kind: 'hang', match: '/profiles' });
  return { child, result };
}

describe('a run', () => {
  it('inserts every profile once, then changes nothing, then applies exactly the changes of a day', async () => {
    await space.configure('days', [members, gold, { name: 'indexes', source: 'indexes' }]);
    const first = await space.runWell('days');
    expect(streamOf(first, 'members')).toMatchObject({
      rows: 4000,
      inserted: 4000,
      updated: 0,
      deleted: 0,
      duplicates: 0,
    });
    expect(first.sequence).toBe(1);
    const again = await space.runWell('days');
    expect(again.streams.map(({ inserted, updated, deleted }) => inserted + updated + deleted)).toEqual([0, 0, 0]);
    expect(again.sequence).toBe(1);
    const before = await space.query('days', 'select id, email, tier, points from members order by id');
    await space.control('change', { days: 1 });
    const next = streamOf(await space.runWell('days'), 'members');
    const after = await space.query('days', 'select id, email, tier, points from members order by id');
    expect(next.rows).toBe(after.length);
    expect(next.inserted).toBeGreaterThan(0);
    expect(next.updated).toBeGreaterThan(0);
    expect(next.deleted).toBeGreaterThan(0);
    expect(after.length - before.length).toBe(next.inserted - next.deleted);
    const ops = await space.query(
      'days',
      'select _op, count(*)::int as rows from members__changes where _run_id = (select max(_run_id) from members__changes) group by 1 order by 1',
    );
    expect(ops).toEqual([
      { _op: 'delete', rows: next.deleted },
      { _op: 'insert', rows: next.inserted },
      { _op: 'update', rows: next.updated },
    ]);
    expect(await readlink(join(space.jobFolder('days'), 'days.duckdb'))).toBe('published/2/days.duckdb');
  });

  it('keeps the same rows in Parquet as in DuckDB', async () => {
    const { files, rows } = await space.manifest('days', 'members');
    const paths = files.map(({ path }) => `'${join(space.jobFolder('days'), 'parquet', 'members', path)}'`).join(', ');
    const columns = 'exclude (_run_id, _synced_at, _first_seen_at)';
    const [difference] = await space.query(
      'days',
      `with p as (from read_parquet([${paths}])), t as (select * ${columns} from members)
       select (select count(*) from p)::int as rows, (select count(*) from (from p except from t))::int as only_parquet,
              (select count(*) from (from t except from p))::int as only_duckdb`,
    );
    expect(difference).toEqual({ rows, only_parquet: 0, only_duckdb: 0 });
  });

  it('writes files that only their owner can read', async () => {
    for (const file of await space.files('days')) {
      const { mode } = await stat(join(space.jobFolder('days'), file));
      expect([file, mode & 0o077]).toEqual([file, 0]);
    }
  });

  it('reads partitions, and adds what no partition covers', async () => {
    const countries = (await space.query('days', 'select distinct country from members where country is not null')).map(
      ({ country }) => country,
    );
    await space.configure('parts', [
      { ...members, name: 'given', partition_by: { attribute: 'country', values: countries.slice(0, 3) } },
      { ...members, name: 'learned', partition_by: { attribute: 'country' } },
    ]);
    const total = (await space.query('days', 'from members')).length;
    expect((await space.runWell('parts')).streams.map(({ rows }) => rows)).toEqual([total, total]);
    const again = await space.runWell('parts');
    expect(again.streams.map(({ rows, unchanged }) => [rows, unchanged])).toEqual([
      [total, total],
      [total, total],
    ]);
    expect(streamOf(again, 'learned').pages).toBeGreaterThanOrEqual(countries.length);
  });

  it('reads every record, even if the total is far too small', async () => {
    await space.configure('few', [
      { ...members, name: 'some', partition_by: { attribute: 'country', values: ['DE', 'US'] } },
    ]);
    await space.control('faults', { kind: 'wrong_total', total: 0 });
    const { streams } = await space.runWell('few').finally(() => space.clearFaults());
    expect(streams[0]?.rows).toBe((await space.query('days', 'from members')).length);
  });

  it('resumes from its checkpoint after a kill, under the same run id', async () => {
    await space.configure('killed', [{ ...members, page_size: 100 }]);
    const { child, result } = await slowRun('killed');
    child.kill('SIGKILL');
    await result;
    await space.clearFaults();
    const [left] = await readdir(join(space.jobFolder('killed'), '.cdsync', 'runs'));
    const report = await space.runWell('killed');
    expect([report.resumed, report.run_id]).toEqual([true, left]);
    const all = (await space.query('days', 'from members')).length;
    expect(streamOf(report, 'members')).toMatchObject({ rows: all, duplicates: 0 });
    expect(await readdir(join(space.jobFolder('killed'), '.cdsync', 'runs'))).toEqual([]);
  });

  it('stops at SIGTERM with a checkpoint and exit code 130', async () => {
    await space.configure('stopped', [{ ...members, page_size: 100 }]);
    const { child, result } = await slowRun('stopped');
    child.kill('SIGTERM');
    const { code, stdout, stderr } = await result;
    expect(code).toBe(130);
    expect(JSON.parse(stdout).status).toBe('interrupted');
    expect(stderr).toContain('cdsync run');
    await space.clearFaults();
    expect(await space.runWell('stopped')).toMatchObject({ resumed: true, status: 'ok' });
  });

  it('is refused with 75 while another one has the job, and starts again with --full', async () => {
    await space.configure('locked', [{ ...members, page_size: 100 }]);
    const { child, result } = await slowRun('locked');
    const second = await space.run('locked');
    expect(second.code).toBe(75);
    expect(second.report).toMatchObject({ status: 'locked', jobs: [], error: { code: 'locked' } });
    expect(second.report.error?.message).toContain(`process ${child.pid}`);
    const status = await space.cdsync(['status', 'locked.json', '--json']);
    expect(JSON.parse(status.stdout)).toMatchObject({ running: { pid: child.pid } });
    child.kill('SIGKILL');
    await result;
    await space.clearFaults();
    // Its checkpoint exists, but --full ignores it.
    expect(await space.runWell('locked', ['--full'])).toMatchObject({ resumed: false, status: 'ok' });
  });

  it('publishes a snapshot that a crash has left unpublished', async () => {
    const folder = space.jobFolder('days');
    const rows = (await space.query('days', 'from members')).length;
    await rm(join(folder, 'days.duckdb'));
    await rm(join(folder, 'published'), { recursive: true });
    await rm(join(folder, 'parquet', 'members', 'manifest.json'));
    expect(await space.runWell('days')).toMatchObject({ sequence: 2 });
    expect(await readdir(join(folder, 'published'))).toEqual(['2']);
    expect((await space.manifest('days', 'members')).rows).toBe(rows);
    expect(await space.query('days', 'from members')).toHaveLength(rows);
  });
});

describe('the published rows stay', () => {
  it('when the service returns nothing', async () => {
    await space.control('faults', { kind: 'empty', match: '/profiles' });
    const { code, report } = await space.run('days', ['--stream', 'members']);
    expect([code, report.jobs[0]?.streams[0]?.error?.code]).toEqual([3, 'empty_answer']);
    expect((await space.query('days', 'from members')).length).toBeGreaterThan(3000);
    await space.clearFaults();
    expect((await space.run('days')).code).toBe(0);
  });

  it('when half of a journal is garbage', async () => {
    await space.configure('garbage', [{ ...members, page_size: 100 }]);
    const { child, result } = await slowRun('garbage');
    child.kill('SIGKILL');
    await result;
    await space.clearFaults();
    const runs = join(space.jobFolder('garbage'), '.cdsync', 'runs');
    const [run = ''] = await readdir(runs);
    const journal = join(runs, run, 'streams', 'members', 'journal.jsonl');
    await writeFile(journal, `${(await readFile(journal, 'utf8')).split('\n')[0]}\n{"type":"checkpoint"}\n`);
    const { code, stderr } = await space.cdsync(['run', 'garbage.json']);
    expect(stderr).toMatch(/stream members is read from the start: .*journal\.jsonl:2/);
    expect(code).toBe(0);
    expect((await space.runWell('garbage')).streams[0]).toMatchObject({ inserted: 0, updated: 0, deleted: 0 });
  });

  it('when another process has the published file open for writing', async () => {
    const { DuckDBInstance } = await import('@duckdb/node-api');
    const analyst = await DuckDBInstance.create(join(space.jobFolder('days'), 'days.duckdb'));
    await space.control('change', { days: 1 });
    expect((await space.runWell('days')).sequence).toBe(3);
    analyst.closeSync();
    expect(await space.query('days', 'select count(*) > 3000 as enough from members')).toEqual([{ enough: true }]);
  });

  it('when the state is foreign or was written by a newer cdsync', async () => {
    const format = join(space.jobFolder('days'), '.cdsync', 'format.json');
    await writeFile(format, '{"format": 99}');
    expect((await space.run('days')).report.error).toMatchObject({ code: 'storage_newer' });
    await writeFile(format, 'hello');
    expect((await space.run('days')).report.error).toMatchObject({ code: 'state_unreadable' });
    await writeFile(format, '{"format": 1}');
    await writeFile(join(space.jobFolder('days'), '.cdsync', 'store.duckdb'), 'not a database');
    const { code, report } = await space.run('days');
    expect([code, report.error?.code]).toEqual([1, 'state_unreadable']);
    expect((await space.query('days', 'from members')).length).toBeGreaterThan(3000);
  });
});

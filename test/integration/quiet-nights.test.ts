import { copyFile, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobReport } from '../../src/core/run-report.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

const job = 'quiet';
let space: Workspace;

const records = (changed: Readonly<Record<number, object>> = {}) =>
  Array.from({ length: 2500 }, (_, n) => ({
    id: `p${n}`,
    index_id: 'people',
    attributes: { country: `c${n % 7}`, ltv: (10 ** (n % 10) * (n + 1)) / 3, tier: n % 5, ...changed[n] },
  }));

const serve = (list: readonly object[]) =>
  space.control('profiles', {
    index: 'people',
    filterable: ['country'],
    records: list.map((record) => JSON.stringify(record)),
  });

const countries = ['c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6'];
const query = (name: string, key: string, text: string) => ({ name, source: 'sql', key: [key], query: text });
const streams = [
  {
    name: 'people',
    source: 'index_profiles',
    index: 'people',
    partition_by: { attribute: 'country', values: countries },
    page_size: 200,
  },
  query(
    'totals',
    'country',
    'select country, sum(ltv) as total, avg(ltv) as mean, list(id) as ids, first(id) as f from people group by 1',
  ),
  query(
    'numbered',
    'id',
    'select id, row_number() over () as n, sum(ltv) over (partition by country) as s from people',
  ),
  query('all_of_them', 'k', "select 'all' as k, sum(total) as total, string_agg(country) as c from totals"),
  query(
    'recent',
    'country',
    "select country, sum(ltv) as total from people where now() > timestamptz '2020-01-01' group by 1",
  ),
];

async function configure(threads: number): Promise<void> {
  const path = await space.configure(job, streams);
  const config = JSON.parse(await readFile(path, 'utf8')) as object;
  await writeFile(path, JSON.stringify({ ...config, resources: { threads } }));
}

/** For each stream whose rows changed, how many. */
function changes(report: JobReport): Record<string, number> {
  const counts = report.streams.map(
    ({ name, inserted, updated, deleted }) => [name, Number(inserted) + Number(updated) + Number(deleted)] as const,
  );
  return Object.fromEntries(counts.filter(([, count]) => count > 0));
}

beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  await serve(records());
  await configure(2);
  await space.runWell(job);
});
afterAll(() => space.close());

describe('a run in which nothing has changed', () => {
  it('changes nothing in any query, and runs none of them that reads streams alone', async () => {
    const report = await space.runWell(job);
    expect(changes(report)).toEqual({});
    expect(report.sequence).toBe(1);
    expect(streamOf(report, 'numbered')).toMatchObject({ status: 'ok', rows: 2500, unchanged: 2500, requests: 0 });
  });

  it.each([1, 2, 3, 4])('changes nothing with %i threads, if every query is run again', async (threads) => {
    await configure(threads);
    expect(changes(await space.runWell(job, ['--full']))).toEqual({});
  });

  it('changes nothing if the service returns its records in another order', async () => {
    await serve(records().reverse());
    expect(changes(await space.runWell(job, ['--full']))).toEqual({});
  });

  it('changes nothing in a store that was restored from its published copy', async () => {
    const folder = space.jobFolder(job);
    const store = join(folder, '.cdsync', 'store.duckdb');
    await rm(store);
    await copyFile(join(folder, `${job}.duckdb`), store);
    expect(changes(await space.runWell(job))).toEqual({});
    expect(changes(await space.runWell(job, ['--full']))).toEqual({});
  });
});

describe('a run in which little has changed', () => {
  it('changes only the groups whose rows have changed', async () => {
    await serve(records({ 8: { ltv: 1.5 } }));
    const report = await space.runWell(job);
    expect(changes(report)).toEqual({ people: 1, totals: 1, all_of_them: 1, recent: 1, numbered: 357 });
    expect(await space.query(job, "select country from totals__changes where _op = 'update'")).toEqual([
      { country: 'c1' },
    ]);
    expect(changes(await space.runWell(job))).toEqual({});
  });

  it('runs the queries again after rows were erased, from their input or from their own rows', async () => {
    const forget = await space.cdsync(['forget', `${job}.json`, 'people', 'p9', '--yes']);
    expect(forget.code, forget.stderr).toBe(0);
    const allow = ['forget', `${job}.json`, '--allow', 'p9', '--allow', 'c6'];
    expect((await space.cdsync(allow)).code).toBe(0);
    await serve(records({ 8: { ltv: 1.5 } }).filter(({ id }) => id !== 'p9'));
    expect(changes(await space.runWell(job))).toMatchObject({ totals: 1, all_of_them: 1, recent: 1 });
    const own = await space.cdsync(['forget', `${job}.json`, 'totals', 'c6', '--yes']);
    expect(own.code, own.stderr).toBe(0);
    expect((await space.cdsync(allow)).code).toBe(0);
    expect(changes(await space.runWell(job))).toMatchObject({ totals: 1 });
  });

  it('is not missed by a query that a guard held in the run before', async () => {
    const guarded = streams.map((stream) =>
      stream.name === 'totals' ? { ...stream, guards: { max_changed: 1 } } : stream,
    );
    await space.configure(job, guarded);
    await serve(records({ 8: { ltv: 2.5 }, 9: { ltv: 2.5 } }));
    expect(streamOf((await space.run(job)).report.jobs[0] as JobReport, 'totals').status).toBe('held');
    // The rest of the run was committed, so nothing has changed since; the query is compared with its own snapshot.
    expect(streamOf((await space.run(job)).report.jobs[0] as JobReport, 'totals')).toMatchObject({ status: 'held' });
    await configure(2);
    expect(changes(await space.runWell(job))).toMatchObject({ totals: 2 });
  });
});

describe('cdsync check', () => {
  it('names the query whose rows may change by themselves', async () => {
    const { stdout, code } = await space.cdsync(['check', `${job}.json`, '--json']);
    expect(code).toBe(0);
    const { warnings } = JSON.parse(stdout) as { warnings: string[] };
    expect(warnings.filter((each) => each.includes('its query has'))).toEqual([
      expect.stringContaining('stream recent: its query has now()'),
    ]);
  });
});

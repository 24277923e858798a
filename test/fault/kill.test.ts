import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobReport } from '../../src/core/run-report.js';
import { seed } from '../fixtures/seed.js';
import { ended, streamOf, Workspace } from '../fixtures/workspace.js';
import { type Random, randomFrom } from './random.js';

/** `npm run test:fault` kills more often; `npm test` has a short form of the same loop. */
const kills = Number(process.env.CDSYNC_TEST_KILLS ?? 5);

const streams = [
  {
    name: 'members',
    source: 'index_profiles',
    index: 'loyalty_members',
    page_size: 200,
    partition_by: { attribute: 'tier', values: ['gold', 'silver', 'bronze'] },
  },
  { name: 'gold', source: 'index_profiles', index: 'loyalty_members', page_size: 50, filter: { tier: 'gold' } },
  { name: 'vip', source: 'segment_members', segment: 'seg-vip', page_size: 20 },
  {
    name: 'vip_profiles',
    source: 'realtime_profiles',
    collection: 'col-1',
    ids: { sql: "select profile_id from vip union all select id from members where country = 'DE'" },
  },
  { name: 'audit', source: 'audit_events', page_size: 100 },
  { name: 'runs', source: 'workflow_runs' },
  {
    name: 'tiers',
    source: 'sql',
    key: ['tier'],
    query: "select coalesce(tier, '-') as tier, count(*) as n, sum(points::bigint) as p from members group by 1",
  },
];
const tables = streams.map(({ name }) => name);
const options = {
  service: { concurrency: 4, rate_limits: { management: 1000 } },
  job: { guards: { max_deleted: '100%', max_changed: '1000%' } },
};

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 30_000, latencyMs: 2, rateLimits: { management: 0 } });
  await space.configure('calm', streams, options);
  await space.configure('killed', streams, options);
  await space.configure('calm_runs', streams, options);
  await space.configure('killed_runs', streams, options);
});
afterAll(() => space.close());

/** Everything that a job has published of a stream. Ignores the order of columns: it depends on the order of pages. */
async function tableFingerprint(job: string, table: string): Promise<unknown> {
  const columns = await space.query(
    job,
    `select column_name from (describe ${table}) where column_name not in ('_run_id', '_synced_at', '_first_seen_at') order by 1`,
  );
  const names = columns.map(({ column_name }) => `"${column_name}"`).join(', ');
  return space.query(
    job,
    `select '${table}' as name, count(*)::int as rows, bit_xor(hash(${names}))::varchar as hashes from ${table}`,
  );
}

/** Paths of temporary files, and of what belongs to runs that have not ended. */
async function leftovers(job: string): Promise<string[]> {
  return (await space.files(job)).filter((file) => file.startsWith('.cdsync/runs/') || file.endsWith('.tmp'));
}

async function fingerprint(job: string): Promise<unknown> {
  const found: unknown[] = [];
  for (const table of tables) {
    found.push(await tableFingerprint(job, table));
    const changes = `select _op, count(*)::int as rows from ${table}__changes group by _op order by _op`;
    found.push(await space.query(job, changes));
  }
  return found;
}

/** Starts runs and kills each at a random instant, until one of them gets through. */
async function killUntilDone(
  job: string,
  random: Random,
  most: number,
): Promise<{ readonly killed: number; readonly report: JobReport }> {
  let longest = 3000;
  for (let count = 0; ; count += 1) {
    const began = performance.now();
    const child = space.spawn(['run', `${job}.json`, '--json', '--quiet']);
    const result = ended(child);
    const stop = new AbortController();
    if (count < most)
      wait(random() * longest, undefined, { signal: stop.signal }).then(
        () => child.kill('SIGKILL'),
        () => undefined,
      );
    const { code, stdout, stderr } = await result;
    stop.abort();
    if (code === 0) return { killed: count, report: (JSON.parse(stdout) as { jobs: [JobReport] }).jobs[0] };
    if (code !== null) throw new Error(`after ${count} kills the run ended with ${code}: ${stderr}`);
    longest = Math.max(1500, Math.min(longest, (performance.now() - began) * 1.5));
  }
}

describe('kill -9 at random instants', () => {
  it(`leaves the same rows as an undisturbed run (seed ${seed}, ${kills} kills)`, async () => {
    const random = randomFrom(seed);
    let killed = 0;
    for (let day = 0; killed < kills; day += 1) {
      await space.runWell('calm');
      killed += (await killUntilDone('killed', random, Math.min(kills - killed, 25))).killed;
      expect({ day, found: await fingerprint('killed') }).toEqual({ day, found: await fingerprint('calm') });
      await space.control('change', { days: 1 });
    }
    expect(await leftovers('killed')).toEqual([]);
    console.info(`${killed} kills survived, seed ${seed}`);
  }, 1_800_000);

  it(`leaves the same rows as undisturbed runs, cached records included (seed ${seed}, ${kills} kills)`, async () => {
    const random = randomFrom(seed + 2);
    const tally = { runs: 0, kills: 0, rows: 0, cached: 0 };
    // The first run has no record cache.
    for (const job of ['calm_runs', 'killed_runs']) await space.runWell(job);
    while (tally.kills < kills) {
      // In every third run nothing has changed.
      if (tally.runs % 3 !== 2) await space.control('change', { days: 1 });
      await space.runWell('calm_runs');
      const { killed, report } = await killUntilDone('killed_runs', random, Math.min(kills - tally.kills, 5));
      tally.runs += 1;
      tally.kills += killed;
      tally.rows += streamOf(report, 'members').rows;
      tally.cached += streamOf(report, 'members').recognised;
      const found = { run: tally.runs, found: await fingerprint('killed_runs') };
      expect(found).toEqual({ run: tally.runs, found: await fingerprint('calm_runs') });
    }
    expect(await leftovers('killed_runs')).toEqual([]);
    const { code, stderr } = await space.cdsync(['verify', 'killed_runs.json']);
    expect(code, stderr).toBe(0);
    expect(tally.cached).toBeGreaterThan(tally.rows / 2);
    console.info(`runs with a record cache, seed ${seed}: ${JSON.stringify(tally)}`);
  }, 3_600_000);

  it('keeps the published rows readable and unchanged', async () => {
    const random = randomFrom(seed + 1);
    const expected = await fingerprint('killed');
    await space.control('change', { days: 1 });
    for (let count = 0; count < 3; count += 1) {
      const child = space.spawn(['run', 'killed.json', '--json', '--quiet']);
      const result = ended(child);
      await wait(200 + random() * 800);
      child.kill('SIGKILL');
      const { code } = await result;
      if (code === null) expect(await fingerprint('killed')).toEqual(expected);
      else break;
    }
    expect(streamOf(await space.runWell('killed'), 'members').rows).toBe(
      (await space.query('killed', 'from members')).length,
    );
    expect(
      await space.query(
        'killed',
        `select count(*)::int as wals from glob('${join(space.jobFolder('killed'), 'published', '*.wal')}')`,
      ),
    ).toEqual([{ wals: 0 }]);
  }, 120_000);
});

import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { RunReport } from '../../src/core/run-report.js';
import type { JobPlan } from '../../src/engine/plan/job-plan.js';
import { ended, streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open();
});
afterAll(() => space.close());

type Row = Record<string, unknown>;

const countries = ['DE', 'US', 'FR', 'IT', 'PL', 'São Tomé', 'a&b=c', '02134'];
const tiers = ['gold', 'silver', 'bronze'];
const rows: readonly Row[] = Array.from({ length: 1200 }, (_, n) => ({
  country: countries[n % 8],
  tier: tiers[n % 3],
  half: n % 2 === 0 ? 'x' : null,
  email: `ann.${n}@example.com`,
}));

async function serve(index: string, records: readonly Row[], filterable = ['country', 'tier', 'half', 'email']) {
  const lines = records.map((attributes, n) => JSON.stringify({ id: `r${n}`, index_id: index, attributes }));
  await space.control('profiles', { index, filterable, records: lines });
}

/** A job whose stream `members` reads an index of the job's name in pages of 50. */
async function configure(name: string, options: Row = { partition_by: 'auto' }): Promise<void> {
  await space.configure(name, [{ name: 'members', source: 'index_profiles', index: name, page_size: 50, ...options }]);
}

async function runOnce(name: string) {
  return streamOf(await space.runWell(name), 'members');
}

describe('partition_by: auto', () => {
  it('reads a first run as one list, and then in the parts that split it most evenly', async () => {
    await serve('even', rows);
    await configure('even');
    expect(await runOnce('even')).toMatchObject({ rows: 1200, pages: 24, partitions: null });
    const next = await runOnce('even');
    expect(next).toMatchObject({ rows: 1200, unchanged: 1200, duplicates: 0 });
    expect(next.partitions).toEqual({ by: ['country', 'tier'], chains: 24, missed: null });
  });

  it('reads a list of a few pages as one, and asks for no total', async () => {
    await serve('small', rows.slice(0, 200));
    await configure('small');
    await runOnce('small');
    expect(await runOnce('small')).toMatchObject({ pages: 4, partitions: null, requests: 5 });
  });

  it('finds what its parts left out when an attribute has got nulls, and does not choose it again', async () => {
    await serve('gaps', rows);
    await configure('gaps');
    await runOnce('gaps');
    const changed = rows.map((row, n) => (n < 7 ? { ...row, country: null } : row));
    await serve('gaps', changed);
    const left = await runOnce('gaps');
    expect(left).toMatchObject({ rows: 1200, updated: 7, deleted: 0 });
    expect(left.partitions).toEqual({ by: ['country', 'tier'], chains: 24, missed: 7 });
    const next = await runOnce('gaps');
    expect(next).toMatchObject({ rows: 1200, unchanged: 1200 });
    expect(next.partitions).toEqual({ by: ['tier'], chains: 3, missed: null });
  });

  it('gives up a split that the totals call incomplete run after run, and says so', async () => {
    await serve('lies', rows, ['country']);
    await configure('lies');
    await runOnce('lies');
    await space.control('faults', { kind: 'wrong_total', match: 'profiles', delta: 500 });
    try {
      for (const _ of [1, 2]) {
        expect((await runOnce('lies')).partitions).toEqual({ by: ['country'], chains: 8, missed: 0 });
      }
      const { stdout, stderr, code } = await space.cdsync(['run', 'lies.json', '--json']);
      const [job] = (JSON.parse(stdout) as RunReport).jobs;
      expect([code, job?.streams[0]?.partitions]).toEqual([0, null]);
      expect(stderr).toContain('not read in parts by country, which left records out in 2 of the last runs');
    } finally {
      await space.clearFaults();
    }
  });

  it('chooses only attributes that the service can filter by', async () => {
    await serve('refused', rows, ['tier']);
    await configure('refused');
    await runOnce('refused');
    expect((await runOnce('refused')).partitions).toEqual({ by: ['tier'], chains: 3, missed: null });
    await space.control('faults', { kind: 'ignore_filter' });
    try {
      expect(await runOnce('refused')).toMatchObject({ rows: 1200, unchanged: 1200, partitions: null });
    } finally {
      await space.clearFaults();
    }
  });

  it('resumes after a kill with the parts that it had chosen', async () => {
    await serve('killed', rows);
    await configure('killed');
    await runOnce('killed');
    await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 400 });
    const child = space.spawn(['run', 'killed.json', '--json', '--quiet']);
    const result = ended(child);
    const runs = join(space.jobFolder('killed'), '.cdsync', 'runs');
    const journal = async () => {
      const [run] = await readdir(runs).catch(() => []);
      if (run === undefined) return '';
      return readFile(join(runs, run, 'streams', 'members', 'journal.jsonl'), 'utf8').catch(() => '');
    };
    await vi.waitUntil(async () => (await journal()).split('\n').length > 2, { timeout: 30_000 });
    await space.control('faults', { kind: 'hang', match: '/profiles' });
    child.kill('SIGKILL');
    await result;
    await space.clearFaults();
    const hidden = await space.cdsync(['state', 'show', 'killed.json']);
    expect(hidden.stdout).toContain('value-1');
    expect(hidden.stdout).not.toContain('DE/');
    const report = await space.runWell('killed');
    expect(report.resumed).toBe(true);
    expect(streamOf(report, 'members')).toMatchObject({ rows: 1200, unchanged: 1200, deleted: 0 });
    expect(streamOf(report, 'members').partitions).toEqual({ by: ['country', 'tier'], chains: 24, missed: null });
  });

  it('uses no attribute that has a column rule or that the filter fixes', async () => {
    await serve('hashed', rows);
    await configure('hashed', {
      partition_by: 'auto',
      columns: { country: { hash: true, salt: 'pepper-pepper-pepper' } },
    });
    await runOnce('hashed');
    expect((await runOnce('hashed')).partitions?.by).toEqual(['tier']);
    await serve('fixed', rows.concat(rows, rows));
    await configure('fixed', { partition_by: 'auto', filter: { tier: 'gold' } });
    await runOnce('fixed');
    expect((await runOnce('fixed')).partitions?.by).toEqual(['country']);
  });
});

describe('a plan', () => {
  const planOf = async (name: string) => {
    const { stdout } = await space.cdsync(['plan', `${name}.json`, '--json']);
    const { stdout: text } = await space.cdsync(['plan', `${name}.json`]);
    return { stream: (JSON.parse(stdout) as JobPlan).streams[0], text };
  };

  it('says what parts save, with auto and as a hint without it', async () => {
    await serve('planned', rows);
    await configure('planned', {});
    expect((await planOf('planned')).stream?.split).toBe(null);
    await runOnce('planned');
    const hint = await planOf('planned');
    expect(hint.stream).toMatchObject({ reads: 'list', chains: 1 });
    expect(hint.stream?.split).toMatchObject({ by: ['country', 'tier'], chains: 24, used: false });
    expect(hint.text).toContain(
      'members: set `partition_by: auto` to read it partitioned by country and tier, 24 chains of pages\n',
    );
    await configure('planned');
    const { stream, text } = await planOf('planned');
    expect(stream).toMatchObject({ reads: 'partitions', chains: 24, pages: 24 });
    expect(stream?.split).toMatchObject({ used: true });
    expect(text).toContain('members: partitioned by country and tier, 24 chains of pages\n');
    expect((await runOnce('planned')).requests).toBe(stream?.requests);
  });
});

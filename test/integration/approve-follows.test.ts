import { cp, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/core/run-report.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

async function serve(count: number, tier: string): Promise<void> {
  const records = Array.from({ length: count }, (_, n) =>
    JSON.stringify({ id: `r${n}`, index_id: 'made', attributes: { n, tier } }),
  );
  await space.control('profiles', { index: 'made', records });
}

const made = { name: 'made', source: 'index_profiles', index: 'made', guards: { max_changed: '10%' } };
const tiers = { name: 'tiers', source: 'sql', key: ['id'], query: 'select id, tier from made' };
const over = { name: 'over', source: 'sql', key: ['id'], query: "select id from tiers where tier = 'silver'" };
const crm = { name: 'crm', connector: 'duckdb', path: './crm.duckdb', mode: 'mirror' };

async function held(job: string, streams: readonly object[], more: Record<string, unknown> = {}): Promise<string> {
  await serve(100, 'gold');
  await space.configure(job, streams as never, { job: more as never });
  await space.runWell(job);
  await serve(100, 'silver');
  const { code, report } = await space.run(job);
  expect(code).toBe(3);
  return report.jobs[0]?.run_id ?? '';
}

async function approve(job: string, run: string, more: readonly string[] = []) {
  const { code, stdout, stderr } = await space.cdsync(['approve', `${job}.json`, run, '--json', ...more]);
  const [entry] = (JSON.parse(stdout) as RunReport).jobs;
  return { code, entry, stdout, last: stderr.trim().split('\n').at(-1) };
}

async function inWarehouse(sql: string): Promise<unknown[]> {
  const instance = await DuckDBInstance.create(join(space.folder, 'crm.duckdb'), { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  const rows = (await connection.runAndReadAll(sql)).getRowObjectsJson();
  connection.closeSync();
  instance.closeSync();
  return rows;
}

describe('an approval', () => {
  it('computes the queries over the stream, whose guards hold nothing twice, and loads the destinations', async () => {
    const run = await held('chain', [made, { ...tiers, guards: { max_changed: '10%' } }, over], {
      destinations: [crm],
    });
    const { code, entry } = await approve('chain', run);
    // Its number is that of the last commit, and what followed is in its report alone.
    expect([code, entry?.status, entry?.sequence]).toEqual([0, 'ok', 3]);
    const status = JSON.parse((await space.cdsync(['status', 'chain.json', '--json'])).stdout);
    expect(status.runs.map(({ run_id, sequence }: Record<string, unknown>) => [run_id, sequence])).toEqual([
      [run, 3],
      [expect.any(String), 1],
    ]);
    expect(entry?.streams.map(({ name, status, updated, inserted }) => [name, status, updated, inserted])).toEqual([
      ['made', 'ok', 100, 0],
      ['tiers', 'ok', 100, 0],
      ['over', 'ok', 0, 100],
    ]);
    expect(entry?.destinations.map(({ stream, status }) => [stream, status]).sort()).toEqual([
      ['made', 'ok'],
      ['over', 'ok'],
      ['tiers', 'ok'],
    ]);
    expect(await inWarehouse("select count(*)::int as n from tiers where tier = 'silver'")).toEqual([{ n: 100 }]);
    expect(await space.query('chain', 'select count(*)::int as n from over')).toEqual([{ n: 100 }]);
    const { code: exit, report } = await space.run('chain');
    expect([exit, report.jobs[0]?.streams.map(({ unchanged }) => unchanged)]).toEqual([0, [100, 100, 100]]);
    // A change that follows from no approval is held as ever.
    await serve(100, 'bronze');
    expect((await space.run('chain')).code).toBe(3);
  });

  it('leaves the destinations to a later run with --no-push', async () => {
    const run = await held('later', [made, tiers], { destinations: [{ ...crm, path: './later.duckdb' }] });
    const folder = join(space.jobFolder('later'), '.cdsync', 'runs', run);
    await cp(folder, `${folder}.aside`, { recursive: true });
    const { code, entry } = await approve('later', run, ['--no-push']);
    expect([code, entry?.destinations]).toEqual([0, []]);
    // As if the process had ended before it removed the held result.
    await rename(`${folder}.aside`, folder);
    const status = JSON.parse((await space.cdsync(['status', 'later.json', '--json'])).stdout);
    expect(status.streams.map(({ held }: { held: unknown }) => held)).toEqual([null, null]);
  });

  it('names what needs requests, and is not ok', async () => {
    const asked = {
      name: 'asked',
      source: 'realtime_profiles',
      collection: 'col-1',
      ids: { sql: 'select id from tiers' },
      guards: { max_changed: '10%', max_deleted: 'off' },
    };
    const run = await held('asking', [made, tiers, asked]);
    const { code, entry, last } = await approve('asking', run);
    expect([code, entry?.status]).toEqual([5, 'partial']);
    expect(last).toMatch(/^still old: asked; next: cdsync run asking\.json --stream asked \(/);
    const status = JSON.parse((await space.cdsync(['status', 'asking.json', '--json'])).stdout);
    expect(status.runs[0].status).toBe('partial');
    const old = entry?.streams.find(({ name }) => name === 'asked');
    expect(old).toMatchObject({ status: 'skipped', error: { code: 'dependency' } });
    expect(old?.error?.hint).toContain('--stream asked');
  });

  it('is refused if the columns were configured otherwise since: a value that is hidden now would be published', async () => {
    const run = await held('hidden', [made]);
    const columns = { tier: { hash: true, salt: 'a salt of sixteen bytes or more' } };
    await space.configure('hidden', [{ ...made, columns }] as never);
    const { code, stdout } = await approve('hidden', run);
    expect([code, (JSON.parse(stdout) as RunReport).error?.code]).toEqual([1, 'held_outdated']);
    expect(await space.query('hidden', 'select distinct tier from made')).toEqual([{ tier: 'gold' }]);
    // The same if the stream has left the configuration; it can still be discarded.
    await space.configure('hidden', [{ ...made, name: 'other' }] as never);
    const deleted = await approve('hidden', run);
    expect([deleted.code, (JSON.parse(deleted.stdout) as RunReport).error?.code]).toEqual([1, 'held_outdated']);
    expect((await space.cdsync(['discard', 'hidden.json', run])).stdout).toContain(': made');
  });

  it('holds no later run for what its snapshot breaks: only for more of it', async () => {
    const nested = JSON.parse(`${'['.repeat(1500)}${']'.repeat(1500)}`);
    const nextRun = async (rejected: number, empty: number) => {
      const records = Array.from({ length: 100 }, (_, n) => {
        const bad = n < rejected ? { deep: nested } : {};
        return JSON.stringify({
          id: `r${n}`,
          index_id: 'again',
          attributes: { n, ...(n < 100 - empty && { tier: 'x' }), ...bad },
        });
      });
      await space.control('profiles', { index: 'again', records });
      const { code, report } = await space.run('again');
      const [stream] = report.jobs[0]?.streams ?? [];
      return { code, run: report.jobs[0]?.run_id ?? '', found: stream?.findings?.map(({ guard }) => guard) ?? [] };
    };
    const guards = {
      max_changed: 'off',
      max_null: { tier: '5%' },
      expect: ['select id from again where tier is null'],
    };
    await space.configure('again', [{ ...made, name: 'again', index: 'again', guards }] as never, {});
    expect((await nextRun(0, 0)).code).toBe(0);
    const { code, run, found } = await nextRun(3, 10);
    expect([code, found]).toEqual([3, ['max_rejected', 'max_null', 'expect']]);
    expect((await approve('again', run)).code).toBe(0);
    // The same, and less of it, is told.
    expect(await nextRun(3, 10)).toMatchObject({ code: 0, found: ['max_rejected', 'max_null', 'expect'] });
    expect(await nextRun(2, 10)).toMatchObject({ code: 0, found: ['max_rejected', 'max_null', 'expect'] });
    // As much as was approved is more than the last run had.
    const more = await nextRun(3, 8);
    expect([more.code, more.found[0]]).toEqual([3, 'max_rejected']);
    expect((await approve('again', more.run)).code).toBe(0);
    expect(await nextRun(3, 8)).toMatchObject({ code: 0, found: ['max_rejected', 'max_null', 'expect'] });
    expect(await nextRun(0, 0)).toMatchObject({ code: 0, found: [] });
    expect((await nextRun(1, 0)).code).toBe(3);
  });

  it('of a list that is empty is of the queries over it too', async () => {
    await serve(100, 'gold');
    const open = { max_changed: 'off', max_deleted: 'off' };
    await space.configure('emptied', [{ ...made, guards: open }, tiers] as never, {});
    await space.runWell('emptied');
    await serve(0, 'gold');
    const { code, report } = await space.run('emptied');
    expect(code).toBe(3);
    const { code: exit, entry } = await approve('emptied', report.jobs[0]?.run_id ?? '');
    expect([exit, entry?.streams.map(({ status, rows }) => [status, rows])]).toEqual([
      0,
      [
        ['ok', 0],
        ['ok', 0],
      ],
    ]);
    expect((await space.run('emptied')).code).toBe(0);
  });
});

import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let queries: string[];
let chart: string[];
let afterFirst: string;
let changedTiers: unknown;

async function serve(index: string, records: Readonly<Record<string, object>>): Promise<void> {
  const texts = Object.entries(records).map(([id, attributes]) => JSON.stringify({ id, index_id: index, attributes }));
  await space.control('profiles', { index, records: texts });
}

/** Four runs: a first load; one tier changes, one person is deleted, one is new and enters VIP; nothing; nothing but a delete from VIP. */
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  const page = await readFile('docs/analysts.md', 'utf8');
  queries = [...page.matchAll(/```sql\n([\s\S]*?);\n```/g)].map(([, sql = '']) => sql);
  chart = [...(/\.pivot\((.*?)\)/.exec(page)?.[1] ?? '').matchAll(/'(\w+)'/g)].map(([, column = '']) => column);
  const stream = (name: string, index: string) => ({ name, source: 'index_profiles', index });
  const job = { guards: { max_deleted: 'off', max_changed: 'off' } };
  // The key of a segment's members: segments of the local service have no members of the test's choice.
  const vip = { name: 'vip', source: 'sql', key: ['profile_id'], query: 'select id as profile_id from vips' };
  await space.configure('nightly', [stream('members', 'made'), stream('vips', 'vips'), vip] as never, {
    job: job as never,
  });
  await serve('made', { 'p-0001': { tier: 'silver' }, 'p-0002': { tier: 'gold' }, 'p-0003': { tier: 'gold' } });
  await serve('vips', { 'p-0002': { n: 1 }, 'p-0003': { n: 1 } });
  await space.runWell('nightly');
  afterFirst = new Date().toISOString();
  await serve('made', { 'p-0001': { tier: 'bronze' }, 'p-0002': { tier: 'gold' }, 'p-0004': { tier: 'silver' } });
  await serve('vips', { 'p-0002': { n: 1 }, 'p-0003': { n: 1 }, 'p-0004': { n: 1 } });
  await space.runWell('nightly');
  changedTiers = await ask(0);
  await space.runWell('nightly');
  await serve('vips', { 'p-0002': { n: 1 }, 'p-0004': { n: 1 } });
  await space.runWell('nightly');
});
afterAll(() => space.close());

async function ask(number: number): Promise<Record<string, unknown>[]> {
  const sql = (queries[number] ?? '').replace('2026-10-25 06:00:00+00', afterFirst);
  return space.query('nightly', sql);
}

it('the ten queries of docs/analysts.md return the expected rows for a small history', async () => {
  expect(queries).toHaveLength(10);
  expect(changedTiers).toEqual([{ key: 'p-0001', before: 'silver', after: 'bronze' }]);
  // The last run found no change of a member.
  expect(await ask(0)).toEqual([]);
  expect((await ask(1)).map(({ profile_id }) => profile_id)).toEqual(['p-0004']);
  expect((await ask(2)).map(({ tier, _valid_to }) => [tier, _valid_to === null])).toEqual([
    ['silver', false],
    ['bronze', true],
  ]);
  expect((await ask(3)).map(({ change, rows }) => [change, Number(rows)])).toEqual([
    ['delete', 1],
    ['insert', 1],
    ['update', 1],
  ]);
  expect((await ask(4)).map(({ id, tier }) => [id, tier])).toEqual([
    ['p-0001', 'silver'],
    ['p-0002', 'gold'],
    ['p-0003', 'gold'],
  ]);
  expect((await ask(5)).map(({ id }) => id)).toEqual(['p-0003']);
  expect((await ask(6)).map(({ id }) => id)).toEqual(['p-0004']);
  expect((await ask(7)).map(({ profile_id }) => profile_id)).toEqual(['p-0002', 'p-0003', 'p-0004']);
  expect((await ask(8)).map(({ tier, members }) => [tier, Number(members)])).toEqual([
    ['gold', 2],
    ['silver', 1],
    ...Array.from({ length: 3 }, () => [
      ['bronze', 1],
      ['gold', 1],
      ['silver', 1],
    ]).flat(),
  ]);
  expect((await ask(9)).map(({ stream }) => stream)).toEqual(['members', 'vip', 'vips']);
});

it('the chart of the notebook has a point for each run and tier', async () => {
  const points = await ask(8);
  expect(Object.keys(points[0] ?? {})).toEqual(chart);
  expect(new Set(points.map(({ finished_at: day }) => String(day))).size).toBe(4);
});

import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readWithOldReader } from '../fixtures/old-reader.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1500 });
});
afterAll(() => space.close());

it('files that a run publishes with snappy can be read by tools that know no newer compression', async () => {
  const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
  await space.configure('old', [members], { job: { parquet: { compression: 'snappy' } } });
  const { streams } = await space.runWell('old');
  const folder = join(space.jobFolder('old'), 'parquet', 'members');
  const rows: Record<string, unknown>[] = [];
  for (const { path } of (await space.manifest('old', 'members')).files)
    rows.push(...(await readWithOldReader(join(folder, path))));
  expect(rows.length).toBe(streams[0]?.rows);
  const found = rows.map(({ id, tier, points }) => [id, tier ?? null, points === undefined ? null : String(points)]);
  const published = await space.query('old', 'select id, tier, points::varchar as points from members');
  expect(found.sort()).toEqual(published.map(({ id, tier, points }) => [id, tier, points]).sort());
});

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

async function serve(values: readonly number[]): Promise<void> {
  const records = values.map((n, at) =>
    JSON.stringify({ id: `r${at}`, index_id: 'made', attributes: { n, half: `h${n % 2}` } }),
  );
  await space.control('profiles', { index: 'made', records });
}

it('destinations load from and into folders whose names have the signs of patterns', async () => {
  const [storage, out] = ['./da[1]ta*', './o[u]t*'];
  // Folders that the patterns would match.
  await mkdir(join(space.folder, 'da1ta*'));
  await mkdir(join(space.folder, 'out*'));
  const files = (name: string, more: Record<string, unknown>) => ({
    name,
    connector: 'files',
    path: `${out}/${name}`,
    mode: 'mirror',
    ...more,
  });
  const destinations = [
    files('csv', { format: 'csv' }),
    files('jsonl', { format: 'jsonl' }),
    files('parted', { format: 'parquet', partition_by: ['half'] }),
    { name: 'file', connector: 'duckdb', path: `${out}/made.duckdb`, mode: 'mirror' },
  ];
  const guards = { max_changed: '100%', max_deleted: '100%' };
  await space.configure('signs', [{ name: 'made', source: 'index_profiles', index: 'made', guards }], {
    storage,
    job: { destinations },
  });
  const statuses = async () => {
    const { code, stdout, stderr } = await space.cdsync(['run', 'signs.json', '--json']);
    const { destinations: done } = JSON.parse(stdout).jobs[0];
    return [code, done.map((each: { status: string; error: unknown }) => [each.status, each.error]), stderr];
  };
  const good = [0, destinations.map(() => ['ok', null]), ''];
  await serve([1, 2, 3, 4]);
  expect(await statuses()).toEqual(good);
  await serve([1, 20, 3]);
  expect(await statuses()).toEqual(good);
  const verified = await space.cdsync(['verify', 'signs.json']);
  expect([verified.code, verified.stderr]).toEqual([0, '']);
});

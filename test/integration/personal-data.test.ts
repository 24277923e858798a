import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';
import { openInstance } from '../../src/sdk/duckdb/node-api.js';
import { filesHolding } from '../fixtures/files-holding.js';
import { Receiver } from '../fixtures/webhook-server.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
let receiver: Receiver;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
  receiver = await Receiver.open();
});
afterAll(async () => {
  await receiver.close();
  await space.close();
});

async function serve(count: number, tier: string): Promise<void> {
  const people = Array.from({ length: count }, (_, n) => `person-${n}x`);
  const records = people.map((id) =>
    JSON.stringify({ id, index_id: 'made', attributes: { email: `${id}@x.org`, tier } }),
  );
  await space.control('profiles', { index: 'made', records });
}

/** The paths below a job's folder in the first table of the page. */
async function places(job: string): Promise<string[]> {
  const page = await readFile('docs/personal-data.md', 'utf8');
  const rows = page.slice(page.indexOf('| place |'), page.indexOf('\n\n', page.indexOf('| place |'))).split('\n');
  const cells = rows.map((row) => row.split('|')[1] ?? '');
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].map(([, path = '']) => path.replace('<job>', job)));
}

it('a person is only in the places that docs/personal-data.md names, each is there, and no other user can read one', async () => {
  const url = `http://127.0.0.1:${receiver.port}/x`;
  const job = 'everything';
  await space.configure(job, [{ name: 'made', source: 'index_profiles', index: 'made' }], {
    job: { destinations: [{ name: 'hook', connector: 'http', url, body: { id: '{{ id }}' } }] },
  });
  receiver.reset((_, response) => response.writeHead(403).end());
  await serve(30, 'gold');
  await space.cdsync(['run', `${job}.json`]);
  expect((await space.cdsync(['forget', `${job}.json`, 'person-7x', '--everywhere', '--yes'])).code).toBe(0);
  await serve(5, 'silver');
  expect((await space.cdsync(['run', `${job}.json`])).stdout).toMatch(/made +held/);
  const folder = space.jobFolder(job);
  const files = (await entriesBelow(folder)).filter((entry) => !entry.isDirectory());
  const paths = files.map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1));
  const holding = await filesHolding(folder, ['person-', '@x.org']);
  const named = await places(job);
  expect(named.length).toBeGreaterThan(8);
  expect(named.filter((place) => !paths.some((path) => path.startsWith(place)))).toEqual([]);
  expect(holding.filter((path) => !named.some((place) => path.startsWith(place)))).toEqual([]);
  const modes = await Promise.all(paths.map(async (path) => [path, (await stat(join(folder, path))).mode & 0o077]));
  expect(modes.filter(([, mode]) => mode !== 0)).toEqual([]);
});

it('no run starts while the job is locked, and no erasure', async () => {
  const lock = await openInstance(join(space.jobFolder('everything'), '.cdsync', 'locks', 'job.duckdb'), {});
  const ends = await Promise.all(
    [['run'], ['forget', 'made', 'person-1x', '--yes']].map(([command = '', ...words]) =>
      space.cdsync([command, 'everything.json', ...words]),
    ),
  );
  lock.closeSync();
  expect(ends.map(({ code, stderr }) => [code, /in use|lock/.test(stderr)])).toEqual([
    [75, true],
    [75, true],
  ]);
});

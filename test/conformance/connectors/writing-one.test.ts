import { execFile } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { blocksOf } from '../../fixtures/recipes.js';
import { Workspace } from '../../fixtures/workspace.js';
import { DuckdbProcess } from '../../integration/deliveries/duckdb-process.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1000 });
  const files = new Map<string, string>([['package.json', '{ "type": "module" }']]);
  for (const { file, text } of await blocksOf('writing-a-connector.md'))
    if (file !== undefined) files.set(file, `${files.get(file) ?? ''}${text}`);
  for (const [file, text] of files) await writeFile(join(space.folder, file), text);
  // The packages that `npm install` would add.
  const modules = join(space.folder, 'node_modules');
  await mkdir(modules);
  await symlink(resolve('.'), join(modules, 'cdsync'));
  for (const name of ['vitest', '@duckdb']) await symlink(resolve('node_modules', name), join(modules, name));
});
afterAll(() => space.close());

it('the connector of docs/writing-a-connector.md passes the suite', async () => {
  const vitest = resolve('node_modules', 'vitest', 'vitest.mjs');
  const words = [vitest, 'run', '--root', space.folder, '--reporter', 'json', '--testTimeout', '120000'];
  const { stdout } = await promisify(execFile)(process.execPath, words, {
    cwd: space.folder,
    maxBuffer: 1 << 26,
  }).catch((error: { stdout: string }) => error);
  const { numPassedTests, testResults } = JSON.parse(stdout.slice(stdout.indexOf('{'))) as {
    numPassedTests: number;
    testResults: { assertionResults: { fullName: string; status: string; failureMessages: string[] }[] }[];
  };
  const all = testResults.flatMap(({ assertionResults }) => assertionResults);
  expect(all.filter(({ status }) => status === 'failed').map((test) => [test.fullName, test.failureMessages])).toEqual(
    [],
  );
  // Tests that need a server or permissions are left out.
  expect(all.filter(({ status }) => status !== 'passed').length).toBeLessThan(30);
  expect(numPassedTests).toBeGreaterThan(40);
}, 900_000);

it('the connector of docs/writing-a-connector.md is used by its path, and delivers the changes', async () => {
  const { url, tenantId, clientId, clientSecret } = space.service;
  const env = { CDS_BASE_URL: url, CDS_TENANT_ID: tenantId, CDS_CLIENT_ID: clientId, CDS_CLIENT_SECRET: clientSecret };
  for (let day = 0; day < 2; day += 1) {
    if (day > 0) await space.control('change', { days: 1, updated: 0.2, inserted: 0.1, deleted: 0.04 });
    const { code, stdout, stderr } = await space.cdsync(['run', 'cdsync.yaml', '--quiet'], env);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/shelf +members +ok/);
    // In another process, which gives the file back.
    const reader = new DuckdbProcess();
    const rows = await reader.rows(
      join(space.folder, 'shelf.duckdb'),
      'SELECT id, points::VARCHAR AS points FROM members',
    );
    await reader.close();
    const published = await space.query('nightly', 'select id, points::varchar as points from members order by id');
    const found = rows.map(({ id, points }) => ({ id: String(id), points }));
    found.sort((a, b) => (a.id < b.id ? -1 : 1));
    expect(found).toEqual(published);
  }
}, 120_000);

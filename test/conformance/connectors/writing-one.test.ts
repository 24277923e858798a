import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { blocksOf } from '../../fixtures/recipes.js';
import { Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1000 });
  const files = new Map<string, string>([['package.json', '{ "type": "module" }']]);
  for (const { file, text } of await blocksOf('connectors/writing-one.md'))
    if (file !== undefined) files.set(file, `${files.get(file) ?? ''}${text}`);
  for (const [file, text] of files) await writeFile(join(space.folder, file), text);
  // The packages that `npm install` would add.
  const modules = join(space.folder, 'node_modules');
  await mkdir(modules);
  await symlink(resolve('.'), join(modules, 'cdsync'));
  await symlink(resolve('node_modules', 'vitest'), join(modules, 'vitest'));
});
afterAll(() => space.close());

it('the connector of docs/connectors/writing-one.md passes the suite', async () => {
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
  // Tests that need a server, permissions or a long time are left out.
  expect(all.filter(({ status }) => status !== 'passed').length).toBeLessThan(10);
  expect(numPassedTests).toBeGreaterThan(40);
}, 900_000);

it('the connector of docs/connectors/writing-one.md is used by its path, and delivers the changes', async () => {
  const { url, tenantId, clientId, clientSecret } = space.service;
  const env = { CDS_BASE_URL: url, CDS_TENANT_ID: tenantId, CDS_CLIENT_ID: clientId, CDS_CLIENT_SECRET: clientSecret };
  for (let day = 0; day < 2; day += 1) {
    if (day > 0) await space.control('change', { days: 1, updated: 0.2, inserted: 0.1, deleted: 0.04 });
    const { code, stdout, stderr } = await space.cdsync(['run', 'cdsync.yaml', '--quiet'], env);
    expect([code, stderr]).toEqual([0, '']);
    expect(stdout).toMatch(/shelf +members +ok/);
    const versions = (await readdir(join(space.folder, 'tables'))).map((name) => Number(name.split('.')[1]));
    const file = `members.${Math.max(...versions)}.json`;
    const { rows } = JSON.parse(await readFile(join(space.folder, 'tables', file), 'utf8')) as {
      rows: { id: string; points: string }[];
    };
    const published = await space.query('nightly', 'select id, points::varchar as points from members order by id');
    const found = rows.map(({ id, points }) => ({ id, points })).sort((a, b) => (a.id < b.id ? -1 : 1));
    expect(found).toEqual(published);
  }
}, 120_000);

import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { jobInFile } from '../../../src/cli/load.js';

const folder = mkdtempSync(join(tmpdir(), 'cdsync-job-in-file-'));
const words = { json: false, quiet: false, verbose: false, showValues: false, logFormat: 'text' } as const;
const open = '$\u007b';
const job = (name: string) => `  ${name}: { streams: [{ name: s, source: indexes }] }\n`;

function fileOf(jobs: string): string {
  const file = join(folder, `${jobs.length}.yaml`);
  const auth = `{ client_id: "${open}NOBODY_SETS_THIS}", client_secret: "${open}NOR_THIS}" }`;
  writeFileSync(
    file,
    `service: { base_url: "http://127.0.0.1:1", tenant_id: a, auth: ${auth} }\nstorage: ./kept\njobs:\n${jobs}`,
  );
  return file;
}

test('the only job of a file is meant, also if a variable of the service is not set or the words name another job', async () => {
  const config = fileOf(job('nightly'));
  const meant = { storage: join(folder, 'kept'), job: 'nightly' };
  expect(await jobInFile(words, { config })).toEqual(meant);
  expect(await jobInFile(words, { config, job: 'nope' })).toEqual(meant);
});

test('of several jobs the named one is meant, and none if the words name none', async () => {
  const config = fileOf(job('nightly') + job('weekly'));
  expect(await jobInFile(words, { config, job: 'weekly' })).toMatchObject({ job: 'weekly' });
  expect(await jobInFile(words, { config })).toBeUndefined();
  expect(await jobInFile(words, { config, job: 'nope' })).toBeUndefined();
});

test('nothing is meant where there is no file, or none that can be read', async () => {
  expect(await jobInFile(words, { config: join(folder, 'none.yaml') })).toBeUndefined();
  const broken = join(folder, 'broken.yaml');
  writeFileSync(broken, 'jobs: [');
  expect(await jobInFile(words, { config: broken })).toBeUndefined();
});

import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { filesHolding } from '../../fixtures/files-holding.js';
import { ObjectStore, s3Refusal } from '../../fixtures/object-store.js';
import { Workspace } from '../../fixtures/workspace.js';

let space: Workspace;
let store: ObjectStore;
beforeAll(async () => {
  [space, store] = await Promise.all([Workspace.open({ profiles: 10 }), ObjectStore.open()]);
});
afterEach(() => {
  store.meddling = undefined;
});
afterAll(async () => {
  await store.close();
  await space.close();
});

const made = { name: 'made', source: 'index_profiles', index: 'made' };
const salts = { SALT: 'a salt of more than sixteen bytes', S3_SECRET: 'a-secret-of-the-test' };
const hashed = { columns: { email: { hash: true, salt: '${SALT}' } } };
const formats = ['parquet', 'csv', 'jsonl'] as const;

async function serve(ids: readonly string[]): Promise<void> {
  const records = ids.map((id) =>
    JSON.stringify({ id, index_id: 'made', attributes: { email: `${id}@plain.example` } }),
  );
  await space.control('profiles', { index: 'made', records });
}

async function configure(job: string, place: object, rules: object = {}): Promise<void> {
  const destination = { name: 'out', connector: 'files', keep: 3, ...place };
  const guards = { max_deleted: 'off', max_changed: 'off' };
  await space.configure(job, [{ ...made, ...rules }], { job: { destinations: [destination], guards } });
}

/** One run: how the stream's delivery ended, and what `status` counts afterwards. */
async function runJob(job: string, env: Record<string, string> = {}) {
  const words = ['run', `${job}.json`, '--json', '--quiet'];
  const all = { ...salts, ...env };
  let stdout = '';
  let code: number | null;
  if ('NODE_OPTIONS' in env) {
    const child = space.spawn(words, all);
    child.stdout?.on('data', (chunk) => {
      stdout += chunk;
    });
    [code] = await once(child, 'close');
  } else ({ code, stdout } = await space.cdsync(words, all));
  const status = JSON.parse((await space.cdsync(['status', `${job}.json`, '--json'], salts)).stdout);
  if (code === 2) throw new Error(stdout);
  const [destination] = stdout === '' ? [] : JSON.parse(stdout).jobs[0].destinations;
  return {
    code,
    status: destination?.status,
    error: destination?.error?.code,
    pending: status.destinations[0].erasures_pending,
  };
}

const owed = { code: 5, status: 'partial', error: 'removal_owed', pending: 1 };
const done = { code: 0, status: 'ok', error: undefined, pending: 0 };

/** A module that stops a function of the file system at paths that match. */
async function striking(name: string, call: 'rm' | 'link', pattern: string, strike: string) {
  const path = join(space.folder, `${name}.mjs`);
  await writeFile(
    path,
    `import fsp from 'node:fs/promises';
     import { syncBuiltinESMExports } from 'node:module';
     const own = fsp.${call};
     fsp.${call} = async (...words) => {
       if (!words.some((word) => ${pattern}.test(String(word)))) return own(...words);
       ${strike}
     };
     syncBuiltinESMExports();`,
  );
  return { NODE_OPTIONS: `--import=${pathToFileURL(path)}` };
}

const table = (job: string) => join(space.folder, `${job}-out`, 'made');
const plain = (job: string) => filesHolding(table(job), ['@plain.example']);
const lines = async (job: string) =>
  (await readFile(join(table(job), 'loads.jsonl'), 'utf8'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line).action);

it.each(formats)(
  'a folder of %s whose old files may not be removed says so in each run, until nothing in clear is left',
  async (format) => {
    const job = `folder_${format}`;
    const place = { path: `./${job}-out`, format };
    await configure(job, place);
    await serve(['anna', 'otto']);
    expect(await runJob(job)).toEqual(done);
    expect(await plain(job)).not.toEqual([]);
    await configure(job, place, hashed);
    const refusing = await striking(
      job,
      'rm',
      '/-out.made.(data|manifests).[0-9]/',
      "throw Object.assign(new Error('EACCES'), { code: 'EACCES' });",
    );
    expect(await runJob(job, refusing)).toEqual(owed);
    // With nothing to do, and with changes: both say so.
    expect(await runJob(job, refusing)).toEqual(owed);
    await serve(['anna', 'otto', 'zoe']);
    expect(await runJob(job, refusing)).toEqual(owed);
    expect(await plain(job)).not.toEqual([]);
    expect(await runJob(job)).toEqual(done);
    expect(await plain(job)).toEqual([]);
    expect(await runJob(job)).toEqual(done);
    expect(await lines(job)).toEqual(['create', 'reload', 'increment']);
  },
);

it('a folder whose delivery is killed right after its commit has nothing in clear after the next one, and a line for each load', async () => {
  const job = 'killed';
  const place = { path: `./${job}-out` };
  await configure(job, place);
  await serve(['anna', 'otto']);
  expect(await runJob(job)).toEqual(done);
  await configure(job, place, hashed);
  const kill = await striking(
    job,
    'link',
    '/manifests.000000000002.json$/',
    "await own(...words); process.kill(process.pid, 'SIGKILL');",
  );
  expect(await runJob(job, kill)).toMatchObject({ code: null, pending: 1 });
  expect(await plain(job)).not.toEqual([]);
  expect(await runJob(job)).toEqual(done);
  expect(await plain(job)).toEqual([]);
  expect(await lines(job)).toEqual(['create', 'reload']);
});

it.each(['append', 'upsert'])(
  'a forgotten person stays counted until the files of that person are gone: %s',
  async (mode) => {
    const job = `forgotten_${mode}`;
    await configure(job, { path: `./${job}-out`, mode });
    await serve(['anna', 'otto']);
    expect(await runJob(job)).toEqual(done);
    expect((await space.cdsync(['forget', `${job}.json`, 'made', 'otto'], salts)).code).toBe(0);
    await serve(['anna']);
    const refusing = await striking(
      job,
      'rm',
      '/-out.made.(data|manifests).[0-9]/',
      "throw Object.assign(new Error('EACCES'), { code: 'EACCES' });",
    );
    expect(await runJob(job, refusing)).toEqual(owed);
    expect(await runJob(job, refusing)).toEqual(owed);
    expect(await runJob(job)).toEqual(done);
    expect(await filesHolding(table(job), ['otto@'])).toEqual([]);
  },
);

/** Objects of the bucket that contain a text, whatever their format: rows of CSV are plain bytes. */
async function objectsHolding(bucket: string, text: string): Promise<string[]> {
  const listed = await (await fetch(`${store.bareUrl}/${bucket}?list-type=2`)).text();
  const keys = [...listed.matchAll(/<Key>([^<]+)<\/Key>/g)].map(([, key = '']) => key);
  const bodies = await Promise.all(keys.map(async (key) => (await fetch(`${store.bareUrl}/${bucket}/${key}`)).text()));
  return keys.filter((_, index) => bodies[index]?.includes(text));
}

const isRemoval = (method: string | undefined, url: string | undefined) =>
  method === 'DELETE' || (method === 'POST' && /[?&]delete/.test(url ?? ''));

it.each([
  [403, 'AccessDenied'],
  [503, 'SlowDown'],
])('a bucket that responds %i to removals: each run says so, until nothing in clear is left', async (status, code) => {
  const job = `bucket${status}`;
  await store.createBucket(job);
  const login = { endpoint: store.url, access_key_id: 'AKIDEXAMPLE', secret_access_key: '${S3_SECRET}' };
  const place = { url: `s3://${job}`, format: 'csv', ...login };
  await configure(job, place);
  await serve(['anna', 'otto']);
  expect(await runJob(job)).toEqual(done);
  await configure(job, place, hashed);
  store.meddling = (request, response) =>
    isRemoval(request.method, request.url) ? s3Refusal(response, status, code) : undefined;
  expect(await runJob(job)).toEqual(owed);
  expect(await runJob(job)).toEqual(owed);
  expect(await objectsHolding(job, '@plain.example')).not.toEqual([]);
  store.meddling = undefined;
  expect(await runJob(job)).toEqual(done);
  expect(await objectsHolding(job, '@plain.example')).toEqual([]);
});

it('a bucket that refuses manifest.json once: the next run publishes it, removes the values in clear, and lists both loads', async () => {
  const job = 'unpublished';
  await store.createBucket(job);
  const login = { endpoint: store.url, access_key_id: 'AKIDEXAMPLE', secret_access_key: '${S3_SECRET}' };
  const place = { url: `s3://${job}`, format: 'csv', ...login };
  await configure(job, place);
  await serve(['anna', 'otto']);
  expect(await runJob(job)).toEqual(done);
  await configure(job, place, hashed);
  store.meddling = (request, response) =>
    request.method === 'PUT' && /\/made\/(manifest\.json|loads\.jsonl)/.test(request.url ?? '')
      ? s3Refusal(response, 403, 'AccessDenied')
      : undefined;
  expect(await runJob(job)).toMatchObject({ status: 'failed', error: 'destination_permission', pending: 1 });
  store.meddling = undefined;
  expect(await runJob(job)).toEqual(done);
  expect(await objectsHolding(job, '@plain.example')).toEqual([]);
  const loads = await (await fetch(`${store.bareUrl}/${job}/made/loads.jsonl`)).text();
  expect(
    loads
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).action),
  ).toEqual(['create', 'reload']);
});

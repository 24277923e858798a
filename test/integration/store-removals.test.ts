import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { inflateRawSync, inflateSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { filesHolding } from '../fixtures/files-holding.js';
import { ObjectStore, s3Refusal } from '../fixtures/object-store.js';
import { Workspace } from '../fixtures/workspace.js';

/* Values that a rule hides or `forget` erases leave the storage, also if their removal is refused at first. */

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

const salts = { SALT: 'a salt of more than sixteen bytes', S3_SECRET: 'a-secret-of-the-test' };
const hashed = { columns: { email: { hash: true, salt: '${SALT}' } } };
const made = { name: 'made', source: 'index_profiles', index: 'made' };
const guards = { max_deleted: 'off', max_changed: 'off' };

async function serve(ids: readonly string[]): Promise<void> {
  const records = ids.map((id) =>
    JSON.stringify({ id, index_id: 'made', attributes: { email: `${id}@plain.example` } }),
  );
  await space.control('profiles', { index: 'made', records });
}

/** A module that refuses to remove paths that match. */
async function refusing(name: string, pattern: string): Promise<{ NODE_OPTIONS: string }> {
  const path = join(space.folder, `${name}.mjs`);
  await writeFile(
    path,
    `import fsp from 'node:fs/promises';
     import { syncBuiltinESMExports } from 'node:module';
     const own = fsp.rm;
     fsp.rm = async (...words) => {
       if (!${pattern}.test(String(words[0]))) return own(...words);
       throw Object.assign(new Error('EACCES'), { code: 'EACCES' });
     };
     syncBuiltinESMExports();`,
  );
  return { NODE_OPTIONS: `--import=${pathToFileURL(path)}` };
}

it.each([
  ['snapshots', '/parquet.made.snapshot./'],
  ['published', '/published.[0-9]/'],
])(
  'a folder whose old files may not be removed commits nothing more until the values that a rule hides are gone: %s',
  async (job, pattern) => {
    const runJob = async (env: Record<string, string> = {}) => {
      const child = space.spawn(['run', `${job}.json`, '--json', '--quiet'], { ...salts, ...env });
      child.stdout?.resume();
      const [code] = await once(child, 'close');
      return code;
    };
    const plain = () => filesHolding(space.jobFolder(job), ['@plain.example']);
    await serve(['anna']);
    await space.configure(job, [made], { job: { guards } });
    expect(await runJob()).toBe(0);
    await serve(['anna', 'otto']);
    expect(await runJob()).toBe(0);
    await space.configure(job, [{ ...made, ...hashed }], { job: { guards } });
    const strike = await refusing(job, pattern);
    expect(await runJob(strike)).toBe(5);
    await serve(['anna', 'otto', 'zoe']);
    const pending = async () => (await command(['status', `${job}.json`])).document.erasures_pending;
    expect(await pending()).toBe(1);
    expect(await runJob(strike)).toBe(1);
    expect(await plain()).not.toEqual([]);
    expect(await pending()).toBe(1);
    expect(await runJob()).toBe(0);
    expect(await plain()).toEqual([]);
    expect(await pending()).toBe(0);
  },
);

it('a `forget` that was cut short counts until it is done', async () => {
  const job = 'cut_short';
  await serve(['anna', 'otto']);
  await space.configure(job, [made], { job: { guards } });
  expect((await command(['run', `${job}.json`, '--quiet'])).code).toBe(0);
  const forget = space.spawn(['forget', `${job}.json`, 'made', 'otto', '--json'], {
    ...salts,
    ...(await refusing(job, '/.cdsync.runs/')),
  });
  forget.stdout?.resume();
  expect((await once(forget, 'close'))[0]).toBe(1);
  const pending = async () => (await command(['status', `${job}.json`])).document.erasures_pending;
  expect(await pending()).toBe(1);
  expect((await command(['forget', `${job}.json`, 'made', 'otto'])).code).toBe(0);
  expect(await pending()).toBe(0);
});

/** The keys of objects that contain a text, deflated ones and Parquet included. */
async function objectsHolding(bucket: string, text: string): Promise<string[]> {
  const listed = await (await fetch(`${store.bareUrl}/${bucket}?list-type=2`)).text();
  const keys = [...listed.matchAll(/<Key>([^<]+)<\/Key>/g)].map(([, key = '']) => key);
  const found: string[] = [];
  for (const key of keys) {
    const bytes = Buffer.from(await (await fetch(`${store.bareUrl}/${bucket}/${key}`)).arrayBuffer());
    if (contentsOf(key, bytes).some((content) => content.includes(text))) found.push(key);
  }
  return found;
}

function contentsOf(key: string, bytes: Buffer): Buffer[] {
  if (!key.endsWith('.z')) return [bytes];
  try {
    return [inflateSync(bytes)];
  } catch {
    return [inflateRawSync(bytes)];
  }
}

async function configureBucket(job: string, rules: object = {}): Promise<void> {
  await store.createBucket(job).catch(() => undefined);
  const login = { endpoint: store.url, access_key_id: 'AKIDEXAMPLE', secret_access_key: '${S3_SECRET}' };
  const storage = { url: `s3://${job}`, cache: `./cache-${job}`, ...login } as unknown as string;
  await space.configure(job, [{ ...made, ...rules }], {
    // Rows in which a text can be found byte by byte.
    job: { guards, parquet: { compression: 'none' } },
    storage,
  });
}

async function command(words: readonly string[]) {
  const { code, stdout } = await space.cdsync([...words, '--json'], salts);
  return { code, document: JSON.parse(stdout) };
}

/** How a run ended, and what `status` counts afterwards. */
async function bucketNight(job: string) {
  const { code, document } = await command(['run', `${job}.json`, '--quiet']);
  const { document: status } = await command(['status', `${job}.json`]);
  const [run] = document.jobs;
  return {
    code,
    status: document.status,
    warnings: (run?.warnings ?? []).map((warning: { code: string }) => warning.code),
    pending: status.erasures_pending,
  };
}

const owed = { code: 5, status: 'partial', warnings: ['removal_owed'], pending: 1 };
const done = { code: 0, status: 'ok', warnings: [], pending: 0 };

const isRemoval = (method: string | undefined, url: string | undefined) =>
  method === 'DELETE' || (method === 'POST' && /[?&]delete/.test(url ?? ''));

function refuseRemovals(status: number, code: string): void {
  store.meddling = (request, response) =>
    isRemoval(request.method, request.url) ? s3Refusal(response, status, code) : undefined;
}

it.each([
  [403, 'AccessDenied'],
  [503, 'SlowDown'],
])(
  'a bucket that responds %i to removals: each run says so, until nothing that a rule hides is left',
  async (status, code) => {
    const job = `rule${status}`;
    await configureBucket(job);
    await serve(['anna', 'otto']);
    expect(await bucketNight(job)).toEqual(done);
    expect(await objectsHolding(job, '@plain.example')).not.toEqual([]);
    await configureBucket(job, hashed);
    refuseRemovals(status, code);
    expect(await bucketNight(job)).toEqual(owed);
    // With nothing to do, and with changes.
    expect(await bucketNight(job)).toEqual(owed);
    await serve(['anna', 'otto', 'zoe']);
    expect(await bucketNight(job)).toEqual(owed);
    expect(await objectsHolding(job, '@plain.example')).not.toEqual([]);
    store.meddling = undefined;
    expect(await bucketNight(job)).toEqual(done);
    expect(await objectsHolding(job, '@plain.example')).toEqual([]);
  },
);

it('a bucket that refuses to remove a forgotten person: `forget` says so, and the next run removes the objects', async () => {
  const job = 'forgotten';
  await configureBucket(job);
  await serve(['anna', 'otto']);
  expect(await bucketNight(job)).toEqual(done);
  refuseRemovals(403, 'AccessDenied');
  const erased = await command(['forget', `${job}.json`, 'made', 'otto']);
  expect(erased).toMatchObject({ code: 1, document: { error: { code: 'removal_owed' } } });
  const statusOf = async () => {
    const { document } = await command(['forget', `${job}.json`, '--status']);
    return document.jobs[0].erasures[0];
  };
  expect(await statusOf()).toMatchObject({ storage: { done_at: null }, done: false });
  await serve(['anna']);
  expect(await bucketNight(job)).toEqual(owed);
  expect(await objectsHolding(job, 'otto@')).not.toEqual([]);
  store.meddling = undefined;
  expect(await bucketNight(job)).toEqual(done);
  expect(await objectsHolding(job, 'otto@')).toEqual([]);
  expect(await statusOf()).toMatchObject({ done: true });
});

import { readdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { JobReport } from '../../src/core/run-report.js';
import type { StoredFile, Work } from '../../src/object-store/state.js';
import { bucketName, type Machines } from '../fixtures/machines.js';
import { type ObjectStore, readerKeyId, s3Refusal } from '../fixtures/object-store.js';
import { SharedBucket } from '../fixtures/shared-bucket.js';
import { ended, streamOf, type Workspace } from '../fixtures/workspace.js';

const job = {
  streams: [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }],
  guards: { max_deleted: '100%', max_changed: '1000%' },
};

let bucket: SharedBucket;
let space: Workspace;
let store: ObjectStore;

beforeAll(async () => {
  bucket = await SharedBucket.open();
  ({ space, store } = bucket);
});
afterAll(() => bucket.close());
afterEach(() => {
  store.meddling = undefined;
});

const machines = (storage: Record<string, unknown> = {}) => bucket.machines(job, { both: storage });

/** A run in which every record is unchanged and is a cache hit. */
async function quietRun(all: Machines, machine: string): Promise<JobReport> {
  const report = await all.runWell(machine);
  const { rows, unchanged, recognised } = streamOf(report, 'members');
  expect({ unchanged, recognised }).toEqual({ unchanged: rows, recognised: rows });
  return report;
}

describe('a job in a bucket', () => {
  it('goes from machine to machine, and has the rows and changes of a job that never moved', async () => {
    const { all } = await machines();
    await space.configure('calm', job.streams, { job: { guards: job.guards } });
    for (const machine of ['a', 'b', 'a', 'b']) {
      await all.runWell(machine);
      await space.runWell('calm');
      await space.control('change', { days: 1 });
    }
    const sql = 'select list((id, tier, points) order by id)::varchar as rows, count(*)::int as n from members';
    const changes = 'select _op, count(*)::int as n from members__changes group by 1 order by 1';
    expect(await all.query('a', sql)).toEqual(await space.query('calm', sql));
    expect(await all.query('a', changes)).toEqual(await space.query('calm', changes));
    const verified = await all.cdsync('b', 'verify', '--json');
    expect(JSON.parse(verified.stdout)).toMatchObject({ status: 'ok' });
  });

  it('moves less than 1 MB in a run without changes, and downloads no rows that no command reads', async () => {
    const { all, prefix } = await machines();
    await all.runWell('a');
    await all.runWell('a');
    const before = await bucket.objects(prefix);
    const quiet = await quietRun(all, 'a');
    expect(quiet.bucket).toMatchObject({ brought_bytes: 0, brought_files: 0 });
    expect(quiet.bucket?.put_bytes).toBeLessThan(300_000);
    // A machine without files downloads the store and the record cache, but no Parquet files and no published database.
    const cold = await quietRun(all, 'b');
    expect(cold.bucket?.put_bytes).toBeLessThan(300_000);
    const files = await readdir(all.cache('b'), { recursive: true });
    expect(files.filter((path) => /(snapshot|changes)\/.*\.parquet$|published\/.*\.duckdb$/.test(path))).toEqual([]);
    const after = await bucket.objects(prefix);
    for (const key of ['nightly/nightly.duckdb', 'nightly/parquet/members/manifest.json'])
      expect([key, after[key]]).toEqual([key, before[key]]);
  });

  it('downloads only the blocks of the store that other machines have changed since', async () => {
    const { all } = await machines();
    await all.runWell('a');
    for (const machine of ['a', 'b', 'a', 'b']) {
      const { bucket } = await quietRun(all, machine);
      if (machine === 'a') expect(bucket?.brought_bytes).toBeLessThan(150_000);
    }
    const { bucket } = await quietRun(all, 'b');
    expect(bucket?.brought_files).toBe(0);
    expect((await all.cdsync('a', 'verify')).code).toBe(0);
  });

  it('publishes one database and one manifest, with every file that the manifest lists', async () => {
    const { all, prefix } = await machines();
    await all.runWell('a');
    await space.control('change', { days: 1 });
    const { run_id, streams } = await all.runWell('a');
    const manifest = await bucket.document<{ files: { path: string; rows: number }[]; changes: { run_id: string }[] }>(
      prefix,
      'parquet/members/manifest.json',
    );
    expect(manifest.files.reduce((sum, { rows }) => sum + rows, 0)).toBe(streams[0]?.rows);
    expect(new Set(manifest.changes.map((each) => each.run_id))).toEqual(new Set([run_id]));
    const there = await bucket.objects(prefix);
    for (const { path } of manifest.files) expect(there).toHaveProperty([`nightly/parquet/members/${path}`]);
    for (const key of ['nightly.duckdb', 'reports/index.html', `reports/${run_id}.html`, `reports/${run_id}.json`])
      expect(there).toHaveProperty([`nightly/${key}`]);
  });

  it('serves every command on a machine that has no files of the job', async () => {
    const { all } = await machines();
    const { run_id } = await all.runWell('a');
    for (const [machine, words] of [
      ['status', ['status']],
      ['report', ['report']],
      ['plan', ['plan']],
      ['state', ['state', 'show']],
      ['verify', ['verify']],
      ['dbt', ['schema', '--dbt']],
      ['check', ['check', '--contract']],
    ] as const) {
      await all.add(machine);
      const [command, ...rest] = words;
      const at = rest[0] === 'show' ? ['state', 'show', `${machine}.json`] : [command, `${machine}.json`, ...rest];
      const { code, stdout, stderr } = await space.cdsync(at);
      expect([words, code, stderr]).toEqual([words, 0, expect.any(String)]);
      if (command === 'status' || command === 'report') expect(stdout + stderr).toContain(run_id);
    }
  });

  it('erases a person from the bucket at once', async () => {
    const { all, prefix } = await machines();
    await all.runWell('a');
    const [{ id }] = (await all.query('a', 'select id from members order by id limit 1')) as [{ id: string }];
    const before = Object.keys(await bucket.objects(prefix)).filter((key) => /\/(objects|files)\//.test(key));
    const { code, stderr } = await all.cdsync('b', 'forget', 'members', id);
    expect([code, stderr]).toEqual([0, expect.any(String)]);
    const state = await bucket.document<{ files: { path: string; sha256?: string }[] }>(prefix, 'state.json');
    const kept = state.files.flatMap(({ sha256 }) => sha256 ?? []);
    const left = Object.keys(await bucket.objects(prefix)).filter((key) => before.includes(key));
    for (const key of left) expect(kept.some((sha) => key.includes(sha))).toBe(true);
    expect(await all.query('a', `select count(*)::int as n from members where id = '${id}'`)).toEqual([{ n: 0 }]);
  });

  it('moves into an empty bucket from the folder that it lived in', async () => {
    const { all } = await machines();
    await space.configure('nightly', job.streams, { job: { guards: job.guards }, storage: './caches/a' });
    const { sequence } = await space.runWell('nightly');
    await all.runWell('a');
    expect((await all.runWell('b')).sequence).toBe(sequence);
  });
});

describe('two machines', () => {
  it('work one after the other: the second ends with 75 and says who works', async () => {
    const { all, prefix } = await machines();
    await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 1500 });
    const first = all.spawn('a');
    const done = ended(first);
    await expect
      .poll(async () => Object.keys(await bucket.objects(prefix)), { timeout: 30_000 })
      .toContain('nightly/work.json');
    const second = await all.run('b');
    expect([second.code, second.report]).toMatchObject([75, { status: 'locked', jobs: [], error: { code: 'locked' } }]);
    expect(second.report.error?.message).toContain(`${prefix}/nightly is being worked on by process ${first.pid}`);
    expect((await done).code).toBe(0);
    await space.clearFaults();
  });

  it('cannot both win: the one that was taken over ends as superseded, and its next run begins with the other state', async () => {
    const { all, prefix } = await machines({ takeover_after: '5s' });
    await all.runWell('a');
    await space.control('change', { days: 1 });
    const first = all.spawn('a');
    const done = ended(first);
    const owner = async () => (await bucket.document<Work>(prefix, 'work.json')).owner.pid;
    await expect.poll(owner, { timeout: 30_000 }).toBe(first.pid);
    first.kill('SIGSTOP');
    // The machine is silent, but not gone. Until it has been so for long enough, no one takes over.
    await expect.poll(async () => (await all.run('b')).code, { timeout: 60_000, interval: 1_000 }).toBe(0);
    const state = await bucket.objects(prefix);
    first.kill('SIGCONT');
    const { code, stdout } = await done;
    expect([code, JSON.parse(stdout)]).toMatchObject([75, { status: 'locked', error: { code: 'superseded' } }]);
    expect(await bucket.objects(prefix)).toMatchObject({ 'nightly/state.json': state['nightly/state.json'] });
    for (const machine of ['a', 'b']) expect(await quietRun(all, machine)).toMatchObject({ sequence: 2 });
  });
});

describe('a run with a bucket', () => {
  it('refuses a store without conditional writes, unless only one machine runs', async () => {
    const { all, prefix } = await machines({ endpoint: store.bareUrl });
    const { code, report } = await all.run('a');
    expect([code, report.error?.code]).toEqual([2, 'bucket_unconditional']);
    expect(Object.keys(await bucket.objects(prefix)).filter((key) => key.startsWith('nightly/'))).toEqual([]);
    await all.add('a', { single_machine: true });
    expect((await all.runWell('a')).status).toBe('ok');
    expect((await all.runWell('a')).status).toBe('ok');
  });

  it('refuses a bucket that does not exist, a login without rights, and a clock far off', async () => {
    const { all, prefix } = await machines();
    await all.add('missing', { url: 's3://no-such-bucket/cdsync' });
    expect(await all.run('missing')).toMatchObject({ code: 1, report: { error: { code: 'bucket_refused' } } });
    await all.add('reader', { access_key_id: readerKeyId });
    expect(await all.run('reader')).toMatchObject({ code: 4, report: { error: { code: 'bucket_permission' } } });
    store.meddling = ({ method, url = '' }, response) => {
      if (method !== 'GET' || !url.includes('/work.json')) return undefined;
      response.setHeader('date', new Date(Date.now() + 3 * 3_600_000).toUTCString());
      return s3Refusal(response, 404, 'NoSuchKey');
    };
    expect(await all.run('a')).toMatchObject({ code: 1, report: { error: { code: 'clock_off' } } });
    expect(Object.keys(await bucket.objects(prefix)).filter((key) => key.startsWith('nightly/'))).toEqual([]);
  });

  it('refuses an object that another process changed or removed, and changes nothing', async () => {
    const { all, prefix } = await machines();
    await all.runWell('a');
    const state = await bucket.document<{ files: { path: string; sha256: string }[] }>(prefix, 'state.json');
    const stored = state.files.find(({ path }) => path === '.cdsync/store.duckdb')?.sha256 ?? '';
    await bucket.put(prefix, `objects/${stored}`, 'damaged');
    await bucket.put(prefix, 'nightly.duckdb', 'nor its copy');
    const before = await bucket.objects(prefix);
    const { code, report } = await all.run('b');
    expect([code, report.error?.code]).toEqual([1, 'bucket_object_changed']);
    expect(report.error?.message).toContain(`s3://${bucketName}/${prefix}/nightly/objects/${stored}`);
    const { 'nightly/work.json': _, ...after } = await bucket.objects(prefix);
    expect(before).toMatchObject(after);
    await bucket.remove(prefix, `objects/${stored}`);
    expect((await all.run('b')).report.error?.code).toBe('bucket_object_changed');
    // The machine with the cache needs no object that it has.
    expect((await all.runWell('a')).status).toBe('ok');
  });

  it('names public objects that another program altered, and writes them again', async () => {
    const { all, prefix } = await machines();
    const { run_id: runId } = await all.runWell('a');
    const before = await bucket.objects(prefix);
    // Objects have times of whole seconds.
    await sleep(1100);
    const { bytes = 0 } = (await bucket.state(prefix)).files.find(({ path }) =>
      /^published\//.test(path),
    ) as StoredFile;
    const altered: Readonly<Record<string, Buffer>> = {
      'nightly.duckdb': Buffer.alloc(bytes, 7),
      'parquet/members/manifest.json': Buffer.from('{"files":[]}'),
      [`reports/${runId}.json`]: Buffer.from('{}'),
    };
    for (const [name, content] of Object.entries(altered)) await bucket.put(prefix, name, content);
    const { code, stdout } = await all.cdsync('a', 'verify');
    expect(code).toBe(1);
    for (const name of Object.keys(altered))
      expect(stdout).toContain(`${name}: another program altered it in the bucket`);
    await all.runWell('a');
    expect((await all.cdsync('a', 'verify')).code).toBe(0);
    const after = await bucket.objects(prefix);
    for (const name of Object.keys(altered)) expect(after[`nightly/${name}`]).toBe(before[`nightly/${name}`]);
  });

  it('refuses a cache of another storage URL, and a bucket that has lost its state', async () => {
    const { all, prefix } = await machines();
    await all.runWell('a');
    await all.add('other', { cache: './caches/a', url: `s3://${bucketName}/another` });
    expect((await all.run('other')).report.error?.code).toBe('cache_foreign');
    await bucket.remove(prefix, 'state.json');
    expect((await all.run('a')).report.error?.code).toBe('bucket_older');
    await bucket.put(prefix, 'state.json', 'torn');
    const { report } = await all.run('a');
    expect(report.error).toMatchObject({ code: 'state_unreadable' });
    expect(report.error?.message).toContain(`s3://${bucketName}/${prefix}/nightly/state.json`);
    // Without its note, nothing says that the folder has only a part of the job: it does not move into the empty bucket.
    await bucket.remove(prefix, 'state.json');
    await writeFile(join(all.cache('a'), '../.bucket/nightly.json'), 'torn');
    const lost = (await all.run('a')).report.error;
    expect(lost).toMatchObject({ code: 'state_unreadable' });
    expect(lost?.message).toContain('.bucket/nightly.json is damaged');
  });

  it('accepts a stale cache, and downloads again the files that differ', async () => {
    const { all } = await machines();
    await all.runWell('a');
    await space.control('change', { days: 1 });
    await all.runWell('b');
    await writeFile(join(all.cache('a'), '.cdsync', 'format.json'), '{"format":99}');
    const { bucket, sequence } = await all.runWell('a');
    expect(sequence).toBe(2);
    expect(bucket?.brought_files).toBeGreaterThan(1);
    await rm(all.cache('a'), { recursive: true });
    expect(await quietRun(all, 'a')).toMatchObject({ sequence: 2 });
  });
});

import { execFileSync, spawnSync } from 'node:child_process';
import { chmod, lstat, open, readFile, rm } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { entriesBelow } from '../../src/core/folders.js';
import type { RunReport } from '../../src/core/run-report.js';
import { kindOf } from '../../src/object-store/required-files.js';
import { objectsOf } from '../../src/object-store/state.js';
import { type Cut, CuttingProxy } from '../fixtures/cutting-proxy.js';
import type { Machines } from '../fixtures/machines.js';
import { type ObjectStore, s3Refusal } from '../fixtures/object-store.js';
import { SharedBucket } from '../fixtures/shared-bucket.js';
import { canMount, onSmallDisk } from '../fixtures/shell.js';
import { ended, type Workspace } from '../fixtures/workspace.js';

const job = {
  streams: [{ name: 'members', source: 'index_profiles', index: 'loyalty_members' }],
  guards: { max_deleted: '100%', max_changed: '1000%' },
};
const secret = 'a-secret-of-the-test';

let bucket: SharedBucket;
let space: Workspace;
let store: ObjectStore;
let proxy: CuttingProxy;
/** Everything that commands said. */
let said = '';

beforeAll(async () => {
  bucket = await SharedBucket.open();
  ({ space, store } = bucket);
  proxy = await CuttingProxy.open(store.url);
});
afterAll(async () => {
  await proxy.close();
  await bucket.close();
});
afterEach(() => {
  store.meddling = undefined;
  proxy.cut = undefined;
  proxy.cuts.length = 0;
});

/** Machine `a` reaches the bucket by the proxy, `b` without. */
const machines = () => bucket.machines(job, { a: { endpoint: proxy.url } });

async function run(all: Machines, machine: string) {
  const ended = await all.run(machine);
  said += ended.stderr + JSON.stringify(ended.report);
  return ended;
}

async function runWell(all: Machines, machine: string) {
  const { code, report, stderr } = await run(all, machine);
  expect([code, stderr]).toEqual([0, expect.any(String)]);
  return { ...report.jobs[0], stderr };
}

/** The objects of the job's files of a kind. */
async function objectsOfKind(prefix: string, kind: ReturnType<typeof kindOf>): Promise<string[]> {
  return objectsOf((await bucket.state(prefix)).files.filter(({ path }) => kindOf(path) === kind));
}

const rowsSql = 'select count(*)::int as n, bit_xor(hash(id, points))::varchar as h from members';
const rowsIn = (all: Machines, machine: string) => all.query(machine, rowsSql);

describe('a connection that is cut', () => {
  const cuts: readonly [what: string, cut: Cut][] = [
    ['while files are downloaded', { request: /^GET .*\/objects\//, at: 'response', after: 2_000, times: 2 }],
    ['while contents are uploaded', { request: /^PUT .*\/objects\//, at: 'request', after: 2_000, times: 2 }],
    ['before the state is replaced', { request: /^PUT .*\/state\.json/, at: 'request', after: 600, times: 1 }],
    ['when the state has been replaced', { request: /^PUT .*\/state\.json/, at: 'response', after: 0, times: 1 }],
    ['when the right to work was given', { request: /^PUT .*\/work\.json/, at: 'response', after: 0, times: 1 }],
    ['while the database is shown', { request: /^PUT .*\/nightly\.duckdb/, at: 'response', after: 0, times: 1 }],
  ];
  it.each(cuts)('%s delays a run, and no more', async (_, cut) => {
    const { all, prefix } = await machines();
    await runWell(all, 'b');
    await space.control('change', { days: 1 });
    proxy.cut = cut;
    expect(await runWell(all, 'a')).toMatchObject({ sequence: 2, status: 'ok' });
    expect(proxy.cuts.length).toBe(cut.times);
    expect(await runWell(all, 'b')).toMatchObject({ sequence: 2, streams: [{ recognised: expect.any(Number) }] });
    expect(await rowsIn(all, 'b')).toEqual(await rowsIn(all, 'a'));
    expect((await bucket.state(prefix)).fence).toBe(0);
  });
});

describe('a bucket that becomes unavailable while a run uploads its files', () => {
  it('keeps the last good snapshot, and gets the rest from the next run on that machine', async () => {
    const { all } = await machines();
    await runWell(all, 'a');
    const before = await rowsIn(all, 'b');
    await space.control('change', { days: 1 });
    proxy.cut = { request: /^PUT .*\/(objects|files)\//, at: 'request', after: 100 };
    const { code, report, stderr } = await run(all, 'a');
    expect([code, report]).toMatchObject([1, { status: 'failed', error: { code: 'bucket_unavailable' } }]);
    expect(report.error?.message).toMatch(/^s3:\/\/crm-snapshots\/test-\d+ is unavailable \(\w+\)$/);
    expect(stderr).toMatch(/next: cdsync run .*last good snapshot/);
    expect(await rowsIn(all, 'b')).toEqual(before);
    proxy.cut = undefined;
    expect(await runWell(all, 'a')).toMatchObject({ sequence: 2, streams: [{ inserted: 0, updated: 0 }] });
    expect(await runWell(all, 'b')).toMatchObject({ sequence: 2 });
    expect(await rowsIn(all, 'b')).toEqual(await rowsIn(all, 'a'));
  }, 240_000);
});

describe('a service that refuses', () => {
  const isData = ({ method, url = '' }: IncomingMessage) => method === 'PUT' && /\/(objects|files)\//.test(url);
  const refusals: readonly [status: number, code: string, exit: number, error: string, says: RegExp][] = [
    [403, 'InvalidAccessKeyId', 4, 'bucket_login', /refuses the login \(InvalidAccessKeyId\)/],
    [401, 'Unauthorized', 4, 'bucket_login', /refuses the login/],
    [403, 'AccessDenied', 4, 'bucket_permission', /refuses access/],
    [403, 'RequestTimeTooSkewed', 4, 'bucket_login', /the clocks differ/],
    [404, 'NoSuchBucket', 1, 'bucket_refused', /there is no bucket/],
  ];
  it.each(refusals)('by %i %s ends a run at its beginning, or before its state changes', async (...refusal) => {
    const [status, name, exit, error, says] = refusal;
    const { all, prefix } = await machines();
    await runWell(all, 'b');
    const before = await bucket.state(prefix);
    await space.control('change', { days: 1 });
    for (const strikes of [() => true, isData]) {
      store.meddling = (request, response) => (strikes(request) ? s3Refusal(response, status, name) : undefined);
      const { code, report } = await run(all, 'b');
      expect([code, report.error?.code, report.error?.message]).toEqual([exit, error, expect.stringMatching(says)]);
      expect(report.error?.hint).toMatch(/credentials|clock|create it/);
      store.meddling = undefined;
      expect(await bucket.state(prefix)).toEqual(before);
    }
    expect(await runWell(all, 'b')).toMatchObject({ sequence: 2 });
    expect(await runWell(all, 'a')).toMatchObject({ sequence: 2 });
  });

  it('the login while a run reads ends it with exit code 4; the bucket stays as it is, and the next run reads the rest', async () => {
    const small = job.streams.map((stream) => ({ ...stream, page_size: 100 }));
    const { all, prefix } = await bucket.machines({ ...job, streams: small });
    await runWell(all, 'a');
    const [before, objects] = [await bucket.state(prefix), await bucket.objects(prefix)];
    await space.control('change', { days: 1 });
    await space.control('stats/reset');
    await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 150 });
    const run = ended(all.spawn('a'));
    while (Object.values(await space.operations()).reduce((sum, each) => sum + each, 0) < 5) await sleep(20);
    // The login was changed: the bucket takes it no more, until the configuration has the new one.
    let refused = 0;
    store.meddling = (_, response) => {
      refused += 1;
      return s3Refusal(response, 403, 'InvalidAccessKeyId');
    };
    const { code, stdout, stderr } = await run;
    store.meddling = undefined;
    await space.clearFaults();
    const report = JSON.parse(stdout) as RunReport;
    expect([code, report.status, report.error?.code]).toEqual([4, 'failed', 'bucket_login']);
    expect(report.error?.message).toMatch(/refuses the login \(InvalidAccessKeyId\)/);
    expect(report.error?.hint).toMatch(/credentials/);
    expect(stderr).toMatch(/last good snapshot/);
    expect(stderr + stdout).not.toContain(secret);
    expect(refused).toBeGreaterThan(0);
    expect(await bucket.state(prefix)).toEqual(before);
    for (const [key, version] of Object.entries(objects))
      if (!key.endsWith('work.json')) expect([key, (await bucket.objects(prefix))[key]]).toEqual([key, version]);
    expect(await runWell(all, 'a')).toMatchObject({ sequence: 2 });
    expect(await runWell(all, 'b')).toMatchObject({ sequence: 2 });
    expect(await rowsIn(all, 'b')).toEqual(await rowsIn(all, 'a'));
  }, 240_000);

  it('for a while, because it is asked too much, only delays a run', async () => {
    const { all } = await machines();
    let refused = 0;
    store.meddling = ({ method }, response) => {
      refused += 1;
      return refused % 3 !== 0 && method !== 'HEAD' ? s3Refusal(response, 503, 'SlowDown') : undefined;
    };
    expect(await runWell(all, 'a')).toMatchObject({ sequence: 1 });
    expect(refused).toBeGreaterThan(10);
  }, 120_000);
});

describe('a bucket that refuses in mid-write', () => {
  it('the pages of a run: the next run shows them', async () => {
    const { all, prefix } = await machines();
    const isPage = ({ method, url = '' }: IncomingMessage) => method === 'PUT' && /\/nightly\/reports\//.test(url);
    store.meddling = (request, response) => (isPage(request) ? s3Refusal(response, 403, 'AccessDenied') : undefined);
    const { code, report } = await run(all, 'b');
    expect([code, report.error?.code]).toEqual([4, 'bucket_permission']);
    store.meddling = undefined;
    await runWell(all, 'b');
    const reports = (await bucket.state(prefix)).files.filter(({ path }) => path.startsWith('reports/'));
    const names = Object.keys(await bucket.objects(prefix));
    expect(reports.length).toBeGreaterThan(3);
    expect(names).toEqual(expect.arrayContaining(reports.map(({ path }) => `nightly/${path}`)));
  });

  it('only the removal of old objects: the run warns, and is ok', async () => {
    const { all } = await machines();
    const isCleanUp = ({ url = '' }: IncomingMessage) => /prefix=[^&]*objects%2F/.test(url);
    store.meddling = (request, response) => (isCleanUp(request) ? s3Refusal(response, 403, 'AccessDenied') : undefined);
    const ended = await runWell(all, 'b');
    expect(ended).toMatchObject({ sequence: 1, status: 'ok' });
    expect(ended.stderr).toMatch(/warning: .*objects that no file needs could not be removed/);
  });

  it('for longer than `takeover_after`: the machine keeps its lease', async () => {
    const { all } = await bucket.machines(job, { both: { takeover_after: '5s' } });
    await runWell(all, 'b');
    await space.control('change', { days: 1 });
    let since: number | undefined;
    let words = 0;
    store.meddling = ({ method, url = '' }, response) => {
      if (method !== 'PUT') return undefined;
      const isRefusing = since !== undefined && Date.now() - since < 10_000;
      if (isRefusing && url.includes('/work.json')) words += 1;
      if (!/\/(objects|files)\//.test(url)) return undefined;
      since ??= Date.now();
      return Date.now() - since < 10_000 ? s3Refusal(response, 503, 'SlowDown') : undefined;
    };
    expect(await runWell(all, 'b')).toMatchObject({ sequence: 2 });
    // One in each third of `takeover_after`.
    expect(words).toBeGreaterThanOrEqual(3);
  }, 120_000);
});

describe('objects that another process has removed', () => {
  it.each([
    ['published', 'the store, whose copy people read', ['published', 'store'] as const],
    ['rows', 'Parquet files', ['rows'] as const],
    ['known', 'files of the record cache', ['known'] as const],
    ['page', 'pages', ['page'] as const],
  ])('%s: %s come back with the next run, on a machine that has nothing', async (_, __, kinds) => {
    const { all, prefix } = await machines();
    await runWell(all, 'b');
    await space.control('change', { days: 1 });
    await runWell(all, 'b');
    const before = await rowsIn(all, 'b');
    const gone = (await Promise.all(kinds.map((kind) => objectsOfKind(prefix, kind)))).flat();
    expect(gone.length).toBeGreaterThan(0);
    await bucket.remove(prefix, ...gone);
    const healed = await runWell(all, 'a');
    expect(healed).toMatchObject({ sequence: 2, streams: [{ updated: 0, inserted: 0, deleted: 0 }] });
    expect(healed.stderr).toMatch(/warning: s3:\S+ lacks \d+ objects, or has others in their place, \S+ among them/);
    const there = new Set(Object.keys(await bucket.objects(prefix)));
    for (const object of objectsOf((await bucket.state(prefix)).files))
      expect([object, there.has(`nightly/${object}`)]).toEqual([object, true]);
    await rm(all.cache('b'), { recursive: true });
    const verified = await all.cdsync('b', 'verify', '--json');
    expect(JSON.parse(verified.stdout)).toMatchObject({ status: 'ok' });
    expect(await rowsIn(all, 'b')).toEqual(before);
  });

  it('come back from a machine that has them, including the published database and manifest', async () => {
    const { all, prefix } = await machines();
    await runWell(all, 'a');
    await bucket.remove(
      prefix,
      ...objectsOf((await bucket.state(prefix)).files),
      'nightly.duckdb',
      'parquet/members/manifest.json',
    );
    const lost = await run(all, 'b');
    expect([lost.code, lost.report.error?.code]).toEqual([1, 'bucket_object_changed']);
    expect(lost.report.error?.hint).toContain('run on the machine that ran last');
    expect(await runWell(all, 'a')).toMatchObject({ sequence: 1 });
    const names = Object.keys(await bucket.objects(prefix));
    expect(names).toEqual(expect.arrayContaining(['nightly/nightly.duckdb', 'nightly/parquet/members/manifest.json']));
    expect(await runWell(all, 'b')).toMatchObject({ sequence: 1 });
    const verified = await all.cdsync('b', 'verify', '--json');
    expect(JSON.parse(verified.stdout)).toMatchObject({ status: 'ok' });
  });

  it('or damaged: the copy of the store is taken, and other objects are named', async () => {
    const { all, prefix } = await machines();
    await runWell(all, 'a');
    const [stored = ''] = await objectsOfKind(prefix, 'store');
    const length =
      (await bucket.state(prefix)).files.flatMap((file) =>
        'bytes' in file && file.path.endsWith('store.duckdb') ? file.bytes : [],
      )[0] ?? 0;
    const damage = (object: string, bytes: number) => bucket.put(prefix, object, Buffer.alloc(bytes, 7));
    await damage(stored, length);
    expect(await runWell(all, 'b')).toMatchObject({ sequence: 1 });
    const [rows = ''] = await objectsOfKind(prefix, 'rows');
    await damage(rows, 100);
    await rm(all.cache('b'), { recursive: true });
    const verified = await all.cdsync('b', 'verify', '--json');
    expect([verified.code, JSON.parse(verified.stdout)]).toMatchObject([
      1,
      { error: { code: 'bucket_object_changed' } },
    ]);
    expect(verified.stderr).toContain(rows);
    await runWell(all, 'b');
    expect((await all.cdsync('b', 'verify')).code).toBe(0);
  });
});

describe('a cache', () => {
  it('on a full disk ends the run, and the bucket stays as it is', async ({ skip }) => {
    if (!canMount) return skip();
    const { all, prefix } = await machines();
    await runWell(all, 'b');
    const before = await bucket.state(prefix);
    await all.add('small', { cache: './small' });
    const { stdout } = await onSmallDisk(
      space,
      join(space.folder, 'small'),
      2_000_000,
      'cdsync run small.json --json --quiet; echo; echo "exit $?"; cdsync run small.json > /dev/null 2> small/said; echo "exit $?"; cat small/said',
    );
    said += stdout;
    expect(JSON.parse(stdout.split('\n')[0] ?? '')).toMatchObject({ status: 'failed', error: { code: 'disk_full' } });
    expect(await bucket.state(prefix)).toEqual(before);
    expect(await runWell(all, 'b')).toMatchObject({ sequence: 1 });
  });

  /** Writes over a part of a file as a bad disk would: its length and its times stay. @param where from 0 to 1 */
  async function spoil(path: string, where: number): Promise<void> {
    const likeness = join(space.folder, 'likeness');
    execFileSync('touch', ['-r', path, likeness]);
    await chmod(path, 0o600);
    const { size } = await lstat(path);
    const file = await open(path, 'r+');
    await file.write(Buffer.alloc(200_000, 9), 0, 200_000, Math.floor(size * where));
    await file.close();
    execFileSync('touch', ['-r', likeness, path]);
  }

  it.each([0.2, 0.45, 0.6])(
    'whose store went bad (at %d of it) uploads nothing of it, and is downloaded again',
    async (where) => {
      const { all, prefix } = await machines();
      await runWell(all, 'b');
      await spoil(join(all.cache('b'), '.cdsync', 'store.duckdb'), where);
      const before = await objectsOfKind(prefix, 'store');
      await space.control('change', { days: 1 });
      const { code, report } = await run(all, 'b');
      expect(code).toBe(1);
      const [stream] = report.jobs[0]?.streams ?? [];
      expect(report.error ?? stream?.error).toMatchObject({
        code: 'state_unreadable',
        hint: expect.stringContaining('run again: cdsync then compares the cache with the bucket'),
      });
      expect(await objectsOfKind(prefix, 'store')).toEqual(before);
      const healed = await runWell(all, 'b');
      expect(healed).toMatchObject({ sequence: 2 });
      expect(healed.bucket?.brought_files).toBeGreaterThan(0);
      expect(JSON.parse((await all.cdsync('a', 'verify', '--json')).stdout)).toMatchObject({ status: 'ok' });
    },
  );

  it('with the log of a commit that another machine has overtaken gets the state of that machine', async () => {
    const { all } = await machines();
    await runWell(all, 'a');
    const path = join(all.cache('a'), '.cdsync', 'store.duckdb');
    // A run that is killed right after its commit leaves such a log.
    const kill = `import { DuckDBInstance } from '@duckdb/node-api';
      const connection = await (await DuckDBInstance.create(':memory:')).connect();
      await connection.run("ATTACH '${path}' AS store");
      await connection.run("INSERT INTO store.main.members BY NAME (SELECT 'invented' AS id)");
      process.kill(process.pid, 'SIGKILL');`;
    spawnSync(process.execPath, ['--input-type=module', '-e', kill], { cwd: join(import.meta.dirname, '..', '..') });
    expect((await lstat(`${path}.wal`)).size).toBeGreaterThan(0);
    await space.control('change', { days: 1 });
    expect(await runWell(all, 'b')).toMatchObject({ sequence: 2 });
    await space.control('change', { days: 1 });
    expect(await runWell(all, 'a')).toMatchObject({ sequence: 3 });
    expect(await all.query('a', "select count(*)::int as n from members where id = 'invented'")).toEqual([{ n: 0 }]);
    expect((await all.cdsync('a', 'verify', '--json')).code).toBe(0);
  });

  it('whose published file went bad is downloaded again by the second query', async () => {
    const { all } = await machines();
    await runWell(all, 'b');
    const good = await rowsIn(all, 'a');
    expect(await rowsIn(all, 'b')).toEqual(good);
    await spoil(join(all.cache('b'), 'nightly.duckdb'), 0.45);
    const { code, stderr } = await all.cdsync('b', 'query', rowsSql);
    expect([code, stderr]).toEqual([1, expect.stringContaining('run again')]);
    expect(await rowsIn(all, 'b')).toEqual(good);
  });

  it('is for its owner alone, and nothing that was said has a secret in it', async () => {
    const { all } = await machines();
    await runWell(all, 'b');
    const cache = join(all.cache('b'), '..');
    for (const entry of await entriesBelow(cache)) {
      const path = join(entry.parentPath, entry.name);
      const { mode } = await lstat(path);
      if (entry.isSymbolicLink()) continue;
      expect([path, mode & 0o077]).toEqual([path, 0]);
      if (!entry.isFile()) continue;
      const text = await readFile(path, 'latin1');
      expect([path, text.includes(secret) || /X-Amz-Signature|AKIDEXAMPLE/.test(text)]).toEqual([path, false]);
    }
    expect(said.length).toBeGreaterThan(1000);
    expect(said).not.toMatch(/a-secret-of-the-test|X-Amz-|Signature=|AKIDEXAMPLE/);
  });
});

import { copyFile, cp, readdir, readFile, readlink, rename, rm, stat, unlink, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JobStatus } from '../../src/output/status.js';
import type { LockOwner } from '../../src/storage/job-lock.js';
import { shell } from '../fixtures/shell.js';
import { streamOf, Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1000 });
});
afterAll(() => space.close());

const members = { name: 'members', source: 'index_profiles', index: 'loyalty_members' };
const segments = { name: 'segments', source: 'segments' };
const audit = { name: 'audit', source: 'audit_events' };

/** A job with two snapshots, and a day of changes after them. */
async function twoDays(job: string, more: readonly Record<string, unknown>[] = []): Promise<string> {
  await space.configure(job, [members, segments, ...more]);
  await space.runWell(job);
  await space.control('change', { days: 1 });
  await space.runWell(job);
  return space.jobFolder(job);
}

async function verified(job: string): Promise<void> {
  const { code, stdout } = await space.cdsync(['verify', `${job}.json`]);
  expect([code, stdout]).toEqual([0, stdout]);
}

/** Nothing may be taken for new: the run continues from the last snapshot. */
async function resumes(job: string): Promise<void> {
  const report = await space.runWell(job);
  const { inserted, updated, deleted } = streamOf(report, 'members');
  expect([report.sequence, inserted, updated, deleted]).toEqual([2, 0, 0, 0]);
  await verified(job);
}

const parquetFiles = async (job: string) => (await space.files(job)).filter((file) => file.endsWith('.parquet'));

describe('an archive of a storage folder', () => {
  it('that tar has made is used where it is unpacked, in another place', async () => {
    await twoDays('archived', [audit]);
    const { code, stderr } = await shell(
      space,
      `tar -czf storage.tar.gz data/archived && rm -r data/archived && mkdir -p other && tar -xzf storage.tar.gz -C other`,
    );
    expect([code, stderr]).toEqual([0, '']);
    await space.configure('archived', [members, segments, audit], { storage: './other/data' });
    const report = await space.runWell('archived');
    expect([report.sequence, streamOf(report, 'members').unchanged]).toEqual([2, streamOf(report, 'members').rows]);
    await verified('archived');
  });
});

it('a copy without the times of files is published under the same name, and its rows stay as they are', async () => {
  await twoDays('plain');
  const { code } = await shell(space, 'mkdir -p copies && cp -r data copies/ && rm -r data/plain');
  expect(code).toBe(0);
  await space.configure('plain', [members, segments], { storage: './copies/data' });
  const folder = join(space.folder, 'copies', 'data', 'plain');
  for (let run = 0; run < 2; run += 1) {
    const report = await space.runWell('plain');
    expect([report.sequence, streamOf(report, 'members').updated]).toEqual([2, 0]);
    expect(await readlink(join(folder, 'plain.duckdb'))).toBe('published/2/plain.duckdb');
  }
  // The time of the store again: later runs need not compare the two files.
  expect((await stat(join(folder, 'plain.duckdb'))).mtimeMs % 1000).toBe(0);
  await verified('plain');
});

describe('a storage folder from another place', () => {
  const job = 'kept';
  let folder: string;
  beforeAll(async () => {
    folder = await twoDays(job);
  });

  it('resumes if an archiver has put a copy in place of the link, or lost its target', async () => {
    const link = join(folder, `${job}.duckdb`);
    await unlink(link);
    await copyFile(join(folder, 'published', '2', `${job}.duckdb`), link);
    await resumes(job);
    await rm(join(folder, 'published'), { recursive: true });
    await resumes(job);
    expect(await space.query(job, 'select count(*)::int as n from members')).toHaveLength(1);
  });

  it('resumes after the folders of Parquet files were lost, and writes them again', async () => {
    const before = await space.query(job, 'select * exclude (_run_id) from members order by id');
    await rm(join(folder, 'parquet'), { recursive: true });
    await resumes(job);
    const { files, rows } = await space.manifest(job, 'members');
    expect([files.map((file) => file.rows), rows]).toEqual([[before.length], before.length]);
    const glob = join(folder, 'parquet', 'members', 'snapshot', '*', '*.parquet');
    const [read] = await space.query(job, `select count(*)::int as n from read_parquet('${glob}')`);
    expect(read?.n).toBe(before.length);
  });

  it('writes damaged files, and only those, again in a full run', async () => {
    const [good = '', bad = ''] = await Promise.all(
      ['segments', 'members'].map(async (stream) => {
        const [file] = (await space.manifest(job, stream)).files;
        return join(folder, 'parquet', stream, String(file?.path));
      }),
    );
    const intact = await readFile(good);
    await writeFile(bad, 'no Parquet');
    const { code, stderr } = await space.cdsync(['verify', `${job}.json`]);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`next: cdsync run ${job}.json --full (`)]);
    const run = await space.cdsync(['run', `${job}.json`, '--full']);
    expect([run.code, run.stderr]).toMatchObject([
      0,
      expect.stringContaining('stream members: its Parquet files were missing or damaged, and were written again'),
    ]);
    expect(run.stderr).not.toContain('stream segments');
    expect((await readFile(good)).equals(intact)).toBe(true);
    await verified(job);
  });

  it('repairs a manifest that another process has changed', async () => {
    const path = join(folder, 'parquet', 'members', 'manifest.json');
    const manifest = await readFile(path, 'utf8');
    await writeFile(path, manifest.replace(/"rows": \d+/, '"rows": 1'));
    await resumes(job);
    expect(await readFile(path, 'utf8')).toBe(manifest);
  });

  it('is refused if the store is lost and something is published; the error says how to get it back', async () => {
    await rm(join(folder, '.cdsync', 'store.duckdb'));
    const files = await parquetFiles(job);
    const { code, report } = await space.run(job);
    expect([code, report.error?.code]).toEqual([1, 'state_unreadable']);
    const found = await space.cdsync(['verify', `${job}.json`, '--json']);
    expect([found.code, JSON.parse(found.stdout).error]).toEqual([1, report.error]);
    expect(await parquetFiles(job)).toEqual(files);
    const command = /: (cp [^;]+);/.exec(report.error?.hint ?? '')?.[1];
    expect((await shell(space, String(command))).code).toBe(0);
    await resumes(job);
  });

  it('is refused without its private files, and begins again once it was moved away', async () => {
    await rename(join(folder, '.cdsync'), join(space.folder, 'kept-aside'));
    const { code, report } = await space.run(job);
    expect([code, report.error?.code]).toEqual([1, 'state_unreadable']);
    expect(report.error?.hint).toContain('restore');
    await rename(folder, join(space.folder, 'moved-away'));
    expect((await space.runWell(job)).sequence).toBe(1);
  });
});

describe('the lock of a run on another machine', () => {
  const owner = async (job: string, changes: Partial<LockOwner>) => {
    const boot = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim();
    const own = { host: hostname(), boot_id: boot, pid: process.pid, started_at: new Date().toISOString() };
    const path = join(space.jobFolder(job), '.cdsync', 'locks', 'job.json');
    await writeFile(path, JSON.stringify({ ...own, run_id: '20260101T000000Z-abcdef', ...changes }));
  };
  const running = async (job: string) => {
    const { stdout } = await space.cdsync(['status', `${job}.json`, '--json']);
    return (JSON.parse(stdout) as JobStatus).running;
  };

  it('is no lock unless its owner is a running process of this machine', async () => {
    await space.configure('owned', [segments]);
    await space.runWell('owned');
    await owner('owned', {});
    expect(await running('owned')).toMatchObject({ pid: process.pid });
    for (const remote of [
      { host: 'another' },
      { boot_id: 'another' },
      { pid: 2 ** 22 - 1 },
      { started_at: '2020-01-01T00:00:00.000Z' },
    ]) {
      await owner('owned', remote);
      expect([remote, await running('owned')]).toEqual([remote, null]);
    }
    expect((await space.runWell('owned')).sequence).toBe(1);
  });

  it('does not hold in a copy of the folder: a run there resumes from the checkpoint', async () => {
    await space.configure('moved', [{ ...members, page_size: 10 }]);
    await space.control('faults', { kind: 'slow', match: '/profiles', delay_ms: 30, share: 1 });
    const run = space.spawn(['run', 'moved.json', '--quiet']);
    const journal = async () =>
      (await space.files('moved').catch(() => [])).some((file) => file.endsWith('parts/00001.parquet'));
    while (!(await journal())) await new Promise((resolve) => setTimeout(resolve, 20));
    const gone = new Promise((resolve) => run.once('close', resolve));
    run.kill('SIGKILL');
    await gone;
    await space.clearFaults();
    await cp(space.jobFolder('moved'), join(space.folder, 'another', 'moved'), { recursive: true });
    await space.configure('moved', [{ ...members, page_size: 10 }], { storage: './another' });
    const report = await space.runWell('moved');
    expect([report.resumed, report.sequence]).toEqual([true, 1]);
    expect(await readdir(join(space.folder, 'another', 'moved', '.cdsync', 'runs'))).toEqual([]);
  });
});

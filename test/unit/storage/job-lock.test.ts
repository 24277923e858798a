import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { filesWith } from '../../../src/engine/admin/find-value-files.js';
import { Database } from '../../../src/storage/duckdb.js';
import { isOwnerAlive, JobLock, lockOwner } from '../../../src/storage/job-lock.js';
import { JobLayout } from '../../../src/storage/layout.js';

let folder: string;
let layout: JobLayout;
let database: Database;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'job-lock-'));
  layout = new JobLayout(folder, 'nightly');
  for (const made of [layout.locks, layout.runs, layout.reports, layout.publishedFolder, layout.parquet])
    await mkdir(made, { recursive: true });
  database = await Database.open({ memoryMb: 256, threads: 1 });
});
afterAll(async () => {
  database.close();
  await rm(folder, { recursive: true });
});

const startedAt = '2026-11-03T02:15:00.000Z';

describe('the lock of a job', () => {
  it.each([
    ['was never written, as a crash leaves it', () => writeFile(layout.lock, '')],
    ['is cut off', () => truncate(layout.lock, 5000)],
    ['holds something else', () => writeFile(layout.lock, Buffer.alloc(20_000, 7))],
  ])('is taken where its file %s', async (_, harm) => {
    await (await JobLock.acquire(database, layout, startedAt)).release();
    await harm();
    for (let again = 0; again < 2; again += 1) {
      const lock = await JobLock.acquire(database, layout, startedAt);
      expect((await lockOwner(layout))?.pid).toBe(process.pid);
      await lock.release();
    }
  });

  it('names the run, and when this process took the lock: the run may have begun before the process', async () => {
    const now = new Date().toISOString();
    const lock = await JobLock.acquire(database, layout, now);
    await lock.describe({ run_id: '20200101T000000Z-000000' });
    const owner = await lockOwner(layout);
    expect(owner).toMatchObject({ run_id: '20200101T000000Z-000000', started_at: now });
    expect(owner !== undefined && (await isOwnerAlive(owner))).toBe(true);
    await lock.release();
  });

  it('stays while every file of the job is searched for the texts of a person', async () => {
    const lock = await JobLock.acquire(database, layout, startedAt);
    const session = await database.connect();
    await filesWith(session, layout, ['a-person']);
    session.close();
    const take = `import { DuckDBInstance } from '@duckdb/node-api';
      const connection = await (await DuckDBInstance.create(':memory:')).connect();
      await connection.run("ATTACH '${layout.lock}' AS taken");`;
    const { stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', take], { encoding: 'utf8' });
    expect(stderr).toMatch(/could not set lock/i);
    await lock.release();
  });

  it('is refused to other work in the same process, by any path, until it is released', async () => {
    const other = await Database.open({ memoryMb: 256, threads: 1 });
    const link = join(folder, 'link');
    await symlink(folder, link);
    const lock = await JobLock.acquire(database, layout, startedAt);
    const again = () => JobLock.acquire(other, new JobLayout(link, 'nightly'), startedAt);
    await expect(again()).rejects.toMatchObject({ code: 'locked', kind: 'locked' });
    expect((await lockOwner(layout))?.pid).toBe(process.pid);
    await lock.release();
    await (await again()).release();
    other.close();
  });

  it('says where data goes that does not fit in memory: into its private folder, and nowhere without the lock', async () => {
    const leftBehind = join(layout.private, '.spill.0123abcd.tmp');
    await mkdir(leftBehind);
    const small = await Database.open({ memoryMb: 64, threads: 1 });
    const session = await small.connect();
    const sorted = session.run.bind(
      session,
      'CREATE OR REPLACE TEMP TABLE t AS SELECT hash(range)::VARCHAR AS h FROM range(3000000) ORDER BY h',
    );
    await expect(sorted()).rejects.toThrow();
    const lock = await JobLock.acquire(small, layout, startedAt);
    await sorted();
    const [spilled, ...others] = (await readdir(layout.private)).filter((name) => name.endsWith('.tmp'));
    expect([spilled, others]).toEqual([expect.stringMatching(/^\.spill\.(?!0123abcd)[0-9a-f]{8}\.tmp$/), []]);
    expect(await readdir(join(layout.private, spilled ?? ''))).not.toEqual([]);
    session.close();
    await lock.release();
    small.close();
    expect((await readdir(layout.private)).filter((name) => name.endsWith('.tmp'))).toEqual([]);
    expect(existsSync('.tmp')).toBe(false);
  });
});

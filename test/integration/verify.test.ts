import { copyFile, open, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Verification } from '../../src/engine/inspect/verify-job.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 1500 });
});
afterAll(() => space.close());

const streams = [
  { name: 'members', source: 'index_profiles', index: 'loyalty_members' },
  {
    name: 'counted',
    source: 'sql',
    key: ['country', 'day'],
    query:
      "select country, date '2026-01-01' as day, count(*) as n from members where country is not null group by all",
  },
];

async function verify(job: string): Promise<{ code: number | null; found: Verification }> {
  const { code, stdout } = await space.cdsync(['verify', `${job}.json`, '--json'], { CDS_TOKEN: '' });
  return { code, found: JSON.parse(stdout) };
}

/** Makes a job with a snapshot. @returns the path of its first file of members */
async function prepared(job: string, compression = 'zstd'): Promise<string> {
  await space.configure(job, streams, { job: { parquet: { compression } } });
  await space.runWell(job);
  return firstFile(job);
}

async function firstFile(job: string): Promise<string> {
  const [file] = (await space.manifest(job, 'members')).files;
  return join(space.jobFolder(job), 'parquet', 'members', String(file?.path));
}

async function flip(path: string, at: (size: number) => number): Promise<void> {
  const file = await open(path, 'r+');
  const { size } = await file.stat();
  const byte = Buffer.alloc(1);
  await file.read(byte, 0, 1, at(size));
  byte[0] = (byte[0] as number) ^ 0x20;
  await file.write(byte, 0, 1, at(size));
  await file.close();
}

describe('cdsync verify', () => {
  it('finds nothing wrong, even after days of changes', async () => {
    await prepared('whole');
    await space.control('change', { days: 2 });
    await space.runWell('whole');
    const { code, found } = await verify('whole');
    expect(found.mismatches).toEqual([]);
    expect([code, found.status]).toEqual([0, 'ok']);
    expect(found.streams.map(({ name, files }) => [name, files])).toEqual([
      ['members', 1],
      ['counted', 1],
    ]);
  });

  it.each(['snappy', 'gzip', 'none'])('finds nothing wrong with %s files', async (compression) => {
    await prepared(compression, compression);
    const { code, found } = await verify(compression);
    expect([code, found.mismatches]).toEqual([0, []]);
  });

  it('finds a byte that was flipped, anywhere in a file', async () => {
    const path = await firstFile('whole');
    await copyFile(path, `${space.folder}/good`);
    for (const share of [0.001, 0.3, 0.6, 0.95]) {
      await flip(path, (size) => Math.floor(size * share));
      const { code, found } = await verify('whole');
      expect(code).toBe(1);
      expect(found.mismatches.map(({ problem }) => problem)).toContain('its checksum is not that of the manifest');
      await copyFile(`${space.folder}/good`, path);
    }
    expect((await verify('whole')).code).toBe(0);
  });

  it('shows people which stream is whole, and ends with the next command', async () => {
    const path = await firstFile('whole');
    await flip(path, (size) => size >> 1);
    const { code, stdout, stderr } = await space.cdsync(['verify', 'whole.json']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/failed {2}members: 1,5\d\d rows, 1 files/);
    expect(stdout).toMatch(/ok {6}counted/);
    expect(stderr).toMatch(/next: cdsync run whole\.json/);
    await copyFile(`${space.folder}/good`, path);
  });

  it('finds a manifest that differs from the store, even if files agree with it', async () => {
    const path = join(space.jobFolder('whole'), 'parquet', 'members', 'manifest.json');
    const text = await readFile(path, 'utf8');
    const manifest = JSON.parse(text);
    await writeFile(path, JSON.stringify({ ...manifest, rows: manifest.rows - 1 }));
    expect((await verify('whole')).found.mismatches).toEqual([
      { stream: 'members', file: 'parquet/members/manifest.json', problem: 'it does not say what the store says' },
    ]);
    await writeFile(path, 'hello');
    expect((await verify('whole')).found.mismatches.at(-1)?.problem).toBe('there is no manifest that can be read');
    await writeFile(path, text);
  });

  it('finds a missing file, and a foreign one', async () => {
    const path = await firstFile('whole');
    const foreign = [join(path, '..', 'mine.parquet'), join(path, '..', '..', '..', 'notes.txt')];
    for (const each of foreign) await writeFile(each, 'x');
    await rm(path);
    const { found } = await verify('whole');
    const told = found.mismatches.map(({ file, problem }) => [file?.split('/').at(-1), problem]);
    expect(told.sort()).toEqual([
      ['00001.parquet', 'the file is missing'],
      ['mine.parquet', 'a file that cdsync did not put there'],
      ['notes.txt', 'a file that cdsync did not put there'],
    ]);
    for (const each of foreign) await rm(each);
    await copyFile(`${space.folder}/good`, path);
  });

  it('finds rows that somebody has changed in the published file', async () => {
    const instance = await DuckDBInstance.create(join(space.jobFolder('whole'), 'whole.duckdb'));
    const connection = await instance.connect();
    await connection.run("update members set email = 'x' where id = (select min(id) from members)");
    connection.closeSync();
    instance.closeSync();
    const { code, found } = await verify('whole');
    expect([code, found.mismatches.map(({ problem }) => problem)]).toEqual([
      1,
      ['the published rows are not those of the store'],
    ]);
  });
});

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

async function prepared(job: string, compression = 'zstd'): Promise<string> {
  await space.configure(job, streams, { job: { parquet: { compression } } });
  await space.runWell(job);
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
  it.each(['zstd', 'snappy', 'gzip', 'none'])(
    'finds nothing wrong with %s files, also after days',
    async (compression) => {
      const job = `whole_${compression}`;
      await prepared(job, compression);
      await space.control('change', { days: 2 });
      await space.runWell(job);
      const { code, found } = await verify(job);
      expect(found.mismatches).toEqual([]);
      expect([code, found.status]).toEqual([0, 'ok']);
      expect(found.streams.map(({ name, files }) => [name, files])).toEqual([
        ['members', 1],
        ['counted', 1],
      ]);
    },
  );

  it('finds a byte that was flipped, anywhere in a file', async () => {
    const path = await prepared('flipped');
    await copyFile(path, `${space.folder}/good`);
    for (const share of [0.001, 0.3, 0.6, 0.95]) {
      await flip(path, (size) => Math.floor(size * share));
      const { code, found } = await verify('flipped');
      expect(code).toBe(1);
      expect(found.mismatches.map(({ problem }) => problem)).toContain('its checksum is not that of the manifest');
      await copyFile(`${space.folder}/good`, path);
    }
    expect((await verify('flipped')).code).toBe(0);
  });

  it('finds a missing file, and a foreign one', async () => {
    const path = await prepared('missing');
    await writeFile(join(path, '..', 'mine.parquet'), 'x');
    await writeFile(join(path, '..', '..', '..', 'notes.txt'), 'x');
    await rm(path);
    const { found } = await verify('missing');
    const told = found.mismatches.map(({ file, problem }) => [file?.split('/').at(-1), problem]);
    expect(told.sort()).toEqual([
      ['00001.parquet', 'the file is missing'],
      ['mine.parquet', 'a file that cdsync has not put there'],
      ['notes.txt', 'a file that cdsync has not put there'],
    ]);
  });

  it('finds a manifest that says something else, also where files agree with it', async () => {
    await prepared('told');
    const path = join(space.jobFolder('told'), 'parquet', 'members', 'manifest.json');
    const manifest = JSON.parse(await readFile(path, 'utf8'));
    await writeFile(path, JSON.stringify({ ...manifest, rows: manifest.rows - 1 }));
    expect((await verify('told')).found.mismatches).toEqual([
      { stream: 'members', file: 'parquet/members/manifest.json', problem: 'it does not say what the store says' },
    ]);
    await writeFile(path, 'hello');
    expect((await verify('told')).found.mismatches.at(-1)?.problem).toBe('there is no manifest that can be read');
  });

  it('finds rows that somebody has changed in the published file', async () => {
    await prepared('edited');
    const instance = await DuckDBInstance.create(join(space.jobFolder('edited'), 'edited.duckdb'));
    const connection = await instance.connect();
    await connection.run("update members set email = 'x' where id = (select min(id) from members)");
    connection.closeSync();
    instance.closeSync();
    const { code, found } = await verify('edited');
    expect([code, found.mismatches.map(({ problem }) => problem)]).toEqual([
      1,
      ['the published rows are not those of the store'],
    ]);
  });

  it('shows people which stream is whole, and ends with the next command', async () => {
    const path = await prepared('shown');
    await flip(path, (size) => size >> 1);
    const { code, stdout, stderr } = await space.cdsync(['verify', 'shown.json']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/failed {2}members: 1,5\d\d rows, 1 files/);
    expect(stdout).toMatch(/ok {6}counted/);
    expect(stderr).toMatch(/next: cdsync run shown\.json/);
  });
});

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, realpath, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seed } from '../fixtures/seed.js';
import { Workspace } from '../fixtures/workspace.js';
import { randomFrom } from './random.js';

/** `npm run test:fault` does more rounds. */
const rounds = process.env.CDSYNC_TEST_FAULTS === undefined ? 2 : 20;

/** Together they open the file fifty times a second, as far as two cores allow during the runs. */
const readersAtOnce = rounds < 20 ? 1 : 4;

interface Seen {
  readonly sequence: number;
  readonly rows: number;
  readonly hashes: string;
  readonly changes: number;
}

const streams = [
  { name: 'members', source: 'index_profiles', index: 'loyalty_members', page_size: 1000 },
  { name: 'tiers', source: 'sql', key: ['tier'], query: 'select tier, count(*) as n from members group by 1' },
];

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 3000 });
  const job = { guards: { max_deleted: '100%', max_changed: '1000%' } };
  await space.configure('read', streams, { job });
  await space.configure('calm', streams, { job });
});
afterAll(() => space.close());

function begin(program: string, job: string): ChildProcess {
  const path = join(space.jobFolder(job), `${job}.duckdb`);
  return spawn(process.execPath, [join(import.meta.dirname, 'preload', program), path], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Starts a reader that opens the published file again and again, and collects the results of its queries. */
function read(job: string) {
  const child = begin('reader.mjs', job);
  const seen: (Seen | { error: string })[] = [];
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  lines.on('line', (line) => seen.push(JSON.parse(line)));
  const stop = async () => {
    child.kill('SIGTERM');
    await once(child, 'close');
  };
  return { seen, stop, first: once(lines, 'line') };
}

/** The result of the reader's query on the final version. */
async function committed(job: string): Promise<Seen> {
  const [found] = await space.query(
    job,
    `SELECT (SELECT max(sequence) FROM cdsync.runs)::INTEGER AS sequence, (SELECT count(*) FROM members)::INTEGER AS rows,
     (SELECT bit_xor(hash(m)) FROM (SELECT COLUMNS(*) FROM members) AS m)::VARCHAR AS hashes,
     (SELECT count(*) FROM members__changes)::INTEGER AS changes`,
  );
  return found as unknown as Seen;
}

/** Rows without the columns that differ between runs: two jobs that read the same have the same. */
async function rowsOf(job: string): Promise<unknown> {
  return space.query(
    job,
    `SELECT count(*)::INTEGER AS n, sum(hash(m))::VARCHAR AS h
     FROM (SELECT * EXCLUDE (_run_id, _synced_at, _first_seen_at) FROM members) AS m`,
  );
}

describe('readers of the published file', () => {
  it(`see one complete snapshot each time, through ${rounds} runs`, async () => {
    await space.runWell('read');
    const versions = [await committed('read')];
    const readers = Array.from({ length: readersAtOnce }, () => read('read'));
    await Promise.all(readers.map(({ first }) => first));
    const began = performance.now();
    for (let round = 0; round < rounds; round += 1) {
      await space.control('change', { days: 1 });
      await space.runWell('read');
      versions.push(await committed('read'));
    }
    const seconds = (performance.now() - began) / 1000;
    await Promise.all(readers.map(({ stop }) => stop()));
    const known = new Set(versions.map((version) => JSON.stringify(version)));
    expect(known.size).toBe(rounds + 1);
    for (const { seen } of readers) {
      expect(seen.filter((each) => !known.has(JSON.stringify(each)))).toEqual([]);
      const sequences = seen.map((each) => (each as Seen).sequence);
      expect(sequences).toEqual([...sequences].sort((a, b) => a - b));
      expect(new Set(sequences).size).toBeGreaterThan(rounds / 2);
    }
    const count = readers.reduce((sum, { seen }) => sum + seen.length, 0);
    console.info(`${count} readings of ${known.size} snapshots, ${(count / seconds).toFixed(0)} a second`);
  }, 600_000);
});

/** Opens the published file for writing and changes it. @returns once that is done; the process keeps it open */
async function analyst(): Promise<ChildProcess> {
  const child = begin('analyst.mjs', 'read');
  await Promise.race([once(child.stdout as NodeJS.ReadableStream, 'data'), once(child, 'exit')]);
  if (child.exitCode !== null) throw new Error(`the analyst could not open the published file (${child.exitCode})`);
  return child;
}

describe('an analyst who writes into the published file', () => {
  it(`breaks no run and no later version, killed or not (seed ${seed})`, async () => {
    const random = randomFrom(seed);
    await space.runWell('read');
    let wals = 0;
    for (let round = 0; round < rounds; round += 1) {
      const child = await analyst();
      const link = join(space.jobFolder('read'), 'read.duckdb');
      const version = await realpath(link);
      const published = () => readdir(join(space.jobFolder('read'), 'published'), { recursive: true });
      wals += (await published()).filter((name) => name.endsWith('.wal')).length;
      const killsFirst = random() < 0.4;
      if (killsFirst) child.kill('SIGKILL');
      const runs = random() < 0.5 ? 1 : 2;
      for (let run = 0; run < runs; run += 1) {
        await space.control('change', { days: 1 });
        await space.runWell('read');
        await space.runWell('calm');
        expect(await rowsOf('read')).toEqual(await rowsOf('calm'));
        expect(await realpath(link)).not.toBe(version);
      }
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      const names = await published();
      expect(names).not.toContain(`${relative(join(space.jobFolder('read'), 'published'), await realpath(link))}.wal`);
      expect(names.filter((name) => name.endsWith('.duckdb')).length).toBeLessThanOrEqual(2);
      expect(await rowsOf('read')).toEqual(await rowsOf('calm'));
    }
    expect(wals).toBe(rounds);
  }, 600_000);

  it('leaves a WAL file that no new version of the same number uses', async () => {
    const child = await analyst();
    child.kill('SIGKILL');
    await once(child, 'exit');
    const link = join(space.jobFolder('read'), 'read.duckdb');
    const version = await realpath(link);
    await rm(link);
    await space.runWell('read');
    expect(await realpath(link)).not.toBe(version);
    expect(await rowsOf('read')).toEqual(await rowsOf('calm'));
  }, 120_000);
});

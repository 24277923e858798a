import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Database } from '../../../src/storage/duckdb.js';

let database: Database;
beforeEach(async () => {
  database = await Database.open({ memoryMb: 768, threads: 3 });
});
afterEach(() => database.close());

async function inForce(): Promise<{ threads: number; memory: string }> {
  const session = await database.connect();
  try {
    const [row] = await session.rows("SELECT current_setting('threads') AS t, current_setting('memory_limit') AS m");
    return { threads: Number(row?.t), memory: String(row?.m) };
  } finally {
    session.close();
  }
}

const full = { threads: 3, memory: '459.6 MiB' };
const little = { threads: 1, memory: '244.1 MiB' };

/** Work that is under way until it is ended. */
function held(run: (work: () => Promise<void>) => Promise<void>) {
  let end = () => {};
  let begun = () => {};
  const begins = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const done = run(
    () =>
      new Promise<void>((resolve) => {
        end = resolve;
        begun();
      }),
  );
  const finish = () => {
    end();
    return done;
  };
  return { begins, end: finish };
}

describe('the limits of the instance', () => {
  test('are one thread as long as any work asks for that, and then all again', async () => {
    const both = [1, 2].map(() => held((work) => database.use('writing files', {}, work)));
    for (const { begins } of both) await begins;
    expect(await inForce()).toEqual({ ...full, threads: 1 });
    await both[0]?.end();
    expect(await inForce()).toEqual({ ...full, threads: 1 });
    await both[1]?.end();
    expect(await inForce()).toEqual(full);
    const failing = () => Promise.reject(new Error('failed'));
    await expect(database.use('writing files', {}, failing)).rejects.toThrow('failed');
    expect(await inForce()).toEqual(full);
  });

  test('are the smallest of the phases under way', async () => {
    await database.use('reading', {}, async () => {
      expect(await inForce()).toEqual({ ...full, memory: '304.2 MiB' });
      await database.use('first commit', {}, async () => expect(await inForce()).toEqual(little));
      expect(await inForce()).toEqual({ ...full, memory: '304.2 MiB' });
    });
    expect(await inForce()).toEqual(full);
  });

  test('leave the record caches their memory, also within a phase, and take it back when these are let go', async () => {
    await database.use('comparing', {}, async () => {
      await database.leave(168_000_000);
      expect(await inForce()).toEqual({ ...full, memory: '324.2 MiB' });
      await database.leave(0);
      expect(await inForce()).toEqual(full);
    });
  });

  test('grow for tables of many columns, whatever work is under way', async () => {
    const work = held((each) => database.use('first commit', {}, each));
    await work.begins;
    await database.use('other', { widestColumns: 5000 }, async () => undefined);
    expect(await inForce()).toEqual({ threads: 1, memory: '1.7 GiB' });
    await work.end();
    expect(await inForce()).toEqual({ threads: 3, memory: '1.9 GiB' });
  });

  test('are named where only the COMMIT finds that rows do not fit', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'cdsync-limits-'));
    const small = await Database.open({ memoryMb: 128, threads: 1 });
    await small.spillTo(join(folder, 'spilled'));
    const session = await small.connect();
    try {
      await session.run(`ATTACH '${join(folder, 'large.duckdb')}' AS large`);
      await session.run('CREATE TABLE large.t (text VARCHAR)');
      let inserted = 0;
      const commit = session.transaction(async () => {
        for (; inserted < 200; inserted += 10)
          await session.run("INSERT INTO large.t SELECT repeat('x', 1000000) || range FROM range(10)");
      });
      await expect(commit).rejects.toMatchObject({ code: 'memory_exceeded' });
      expect(inserted).toBe(200);
    } finally {
      session.close();
      small.close();
      await rm(folder, { recursive: true });
    }
  });

  test('stay as they are while more memory is in use than a lower limit allows', async () => {
    const session = await database.connect();
    await session.run('CREATE TEMP TABLE large AS SELECT range AS n, range * range AS m FROM range(15_000_000)');
    const more = () => session.run('INSERT INTO large SELECT range, range FROM range(2_000_000)');
    await database.use('first commit', {}, more);
    await session.run('DROP TABLE large');
    await database.use('first commit', {}, async () => expect(await inForce()).toEqual(little));
    session.close();
  });
});

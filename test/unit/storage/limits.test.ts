import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { Database } from '../../../src/storage/duckdb.js';
import { SharedLimits } from '../../../src/storage/shared-limits.js';

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

const full = { threads: 3, memory: '621.7 MiB' };
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
    const both = [1, 2].map(() => held((work) => database.onOneThread(work)));
    for (const { begins } of both) await begins;
    expect(await inForce()).toEqual({ ...full, threads: 1 });
    await both[0]?.end();
    expect(await inForce()).toEqual({ ...full, threads: 1 });
    await both[1]?.end();
    expect(await inForce()).toEqual(full);
    await expect(database.onOneThread(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
    expect(await inForce()).toEqual(full);
  });

  test('leave out what others hold of the memory, but for the share that DuckDB needs', async () => {
    await database.besides(900_000, async () => expect(await inForce()).toEqual(full));
    await database.besides(168_000_000, async () => expect(await inForce()).toEqual({ ...full, memory: '486.3 MiB' }));
    await database.besides(9e9, async () => expect(await inForce()).toEqual({ ...full, memory: '248.9 MiB' }));
    expect(await inForce()).toEqual(full);
  });

  test('are little memory for work in one pass, with a thread for each half gigabyte', async () => {
    await database.sparingly(0, async () => expect(await inForce()).toEqual(little));
    expect(await inForce()).toEqual(full);
    const large = await Database.open({ memoryMb: 2048, threads: 3 });
    const before = database;
    database = large;
    await large.sparingly(0, async () => expect(await inForce()).toEqual({ threads: 3, memory: '732.4 MiB' }));
    // 2,048 rows of 20 kB four times, and the same for rows that are too large for all of the memory.
    await large.sparingly(20_000, async () => expect((await inForce()).memory).toBe('1.1 GiB'));
    const whole = (await inForce()).memory;
    await large.sparingly(1_000_000, async () => expect((await inForce()).memory).toBe(whole));
    large.close();
    database = before;
  });

  test('grow for tables of many columns, whatever work is under way', async () => {
    const work = held((each) => database.sparingly(0, each));
    await work.begins;
    await database.makeRoom(5000);
    expect(await inForce()).toEqual({ threads: 1, memory: '1.7 GiB' });
    await work.end();
    expect(await inForce()).toEqual({ threads: 3, memory: '2.1 GiB' });
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
    const settings: string[] = [];
    const limits = new SharedLimits({ memoryMb: 600, threads: 2 }, async (setting) => {
      settings.push(setting);
      if (setting.includes('200')) throw new Error('could not free enough memory');
    });
    expect(await limits.within({ memoryMb: 200 }, async () => 'done')).toBe('done');
    expect(settings).toEqual(["memory_limit = '200MB'", "memory_limit = '600MB'"]);
  });
});

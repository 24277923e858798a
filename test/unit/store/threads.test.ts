import { afterEach, beforeEach, expect, test } from 'vitest';
import { Database } from '../../../src/store/duckdb.js';

let database: Database;
beforeEach(async () => {
  database = await Database.open({ memoryMb: 256, threads: 3 });
});
afterEach(() => database.close());

async function threads(): Promise<number> {
  const session = await database.connect();
  try {
    return await session.number("SELECT current_setting('threads')");
  } finally {
    session.close();
  }
}

test('DuckDB has one thread as long as any work asks for that, and then its own number again', async () => {
  const ended: (() => void)[] = [];
  const work = () => database.onOneThread(() => new Promise<void>((resolve) => ended.push(resolve)));
  const both = [work(), work()];
  await expect.poll(() => ended.length).toBe(2);
  expect(await threads()).toBe(1);
  ended[0]?.();
  await both[0];
  expect(await threads()).toBe(1);
  ended[1]?.();
  await both[1];
  expect(await threads()).toBe(3);
  await expect(database.onOneThread(() => Promise.reject(new Error('failed')))).rejects.toThrow('failed');
  expect(await threads()).toBe(3);
});

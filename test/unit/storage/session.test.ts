import { expect, it } from 'vitest';
import { Database } from '../../../src/storage/duckdb.js';

it('a statement ends although its signal aborts before it has begun', async () => {
  const database = await Database.open({ memoryMb: 256, threads: 1 });
  const session = await database.connect();
  const stop = new AbortController();
  const statement = session.until(stop.signal, () => {
    const running = session.number('SELECT count(*) FROM range(1000000000000)');
    stop.abort();
    return running;
  });
  await expect(statement).rejects.toMatchObject({ code: 'interrupted' });
  expect(await session.number('SELECT 1')).toBe(1);
  session.close();
  database.close();
});

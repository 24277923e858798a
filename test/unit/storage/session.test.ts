import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { DuckDBDataChunk } from '../../../src/sdk/duckdb/node-api.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';

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

describe('rows that arrive while DuckDB works', () => {
  const rows = 1_000_000;
  let database: Database;
  let session: Session;
  beforeAll(async () => {
    database = await Database.open({ memoryMb: 256, threads: 2 });
    session = await database.connect();
    await session.run(
      `CREATE TABLE scores AS SELECT range AS id, CASE range WHEN 900000 THEN 'n/a' WHEN ${rows - 1} THEN 'none' ELSE '7' END AS score
         FROM range(${rows})`,
    );
  });
  afterAll(() => {
    session.close();
    database.close();
  });

  async function count(sql: string, between = async (_read: number) => {}): Promise<number> {
    let read = 0;
    for await (const { rowCount } of session.chunks(sql)) {
      read += rowCount;
      await between(read);
    }
    return read;
  }

  it.each([
    ['far from the first', 'SELECT id, score::DOUBLE FROM scores'],
    ['in the last', `SELECT CASE WHEN score = 'none' THEN score::INTEGER ELSE id END FROM scores`],
    ['of a sorted result', 'SELECT id, score::DOUBLE FROM scores ORDER BY id'],
  ])('fail with an error %s, with its class and without a value', async (_, sql) => {
    const error = await count(sql).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'database_failed', message: 'DuckDB refused a statement (Conversion Error)' });
    const one = async () => {
      for await (const _row of session.stream(sql));
    };
    await expect(one()).rejects.toMatchObject({ code: 'database_failed' });
  });

  it('as texts, are freed as soon as they are read: the garbage collector knows nothing of their memory', async () => {
    const freed = vi.spyOn(DuckDBDataChunk.prototype, 'reset');
    let read = 0;
    for await (const texts of session.texts('SELECT id::VARCHAR FROM scores LIMIT 10000')) {
      expect(texts[0]).toBe(String(read));
      expect(freed.mock.calls.length).toBe(Math.floor(read / 2048));
      read += texts.length;
    }
    expect(read).toBe(10_000);
    freed.mockRestore();
  });

  it('fail if another statement of the session takes their place', async () => {
    const broken = count('SELECT id FROM scores', async (read) => {
      if (read === 2048) await session.run('SELECT 1');
    });
    await expect(broken).rejects.toMatchObject({ code: 'database_failed' });
  });

  it('fail if they are interrupted, and the signal says so', async () => {
    const stop = new AbortController();
    const read = session.until(stop.signal, () =>
      count('SELECT a.id FROM scores AS a, range(1000)', async () => stop.abort()),
    );
    await expect(read).rejects.toMatchObject({ code: 'interrupted' });
  });

  it('fail in a transaction, whose error is not known', async () => {
    const work = session.transaction(() => count('SELECT id, score::DOUBLE FROM scores'));
    await expect(work).rejects.toMatchObject({
      code: 'database_failed',
      message: expect.stringContaining('before the end of a result'),
    });
  });

  it('are all, in their order, if there is no error', async () => {
    let next = 0n;
    for await (const { id } of session.stream('SELECT id FROM scores ORDER BY id')) {
      if (id !== next) throw new Error(`${id} instead of ${next}`);
      next += 1n;
    }
    expect(next).toBe(BigInt(rows));
  });
});

import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectDuckdb, DuckdbSession } from '../../../src/sdk/sql/duckdb-session.js';

const slow = 'SELECT count(*) FROM range(100000000) a, range(100000) b WHERE a.range <> b.range';

let session: DuckdbSession;

beforeEach(async () => {
  session = new DuckdbSession(await connectDuckdb({ path: ':memory:' }), () => new Error('refused'));
});

afterEach(() => session.close());

describe('a session of DuckDB', () => {
  it('ends a statement that a stop has preceded by a moment', async () => {
    const running = session.rows(slow);
    session.stop();
    await expect(running).rejects.toThrow('refused');
  });

  it('begins nothing after a stop, but rolls back', async () => {
    await session.run('CREATE TABLE t (a INTEGER)');
    await session.begin();
    await session.run('INSERT INTO t VALUES (1)');
    session.stop();
    await expect(session.commit()).rejects.toThrow('refused');
    await expect(session.rollback()).resolves.toBeUndefined();
  });
});

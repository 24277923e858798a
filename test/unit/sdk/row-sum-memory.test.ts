import { expect, it } from 'vitest';
import { duckdbHashing, rowNumber } from '../../../src/sdk/index.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

it('rows of 300 texts are summed in 128 MB', async () => {
  const session = await duckdbSession(128);
  const texts = Array.from({ length: 300 }, (_, n) => `c${n}`);
  const columns = texts.map((name, n) => `repeat('x', 40) || (range + ${n}) AS ${name}`);
  const sum = duckdbHashing.sum(rowNumber(duckdbHashing, texts));
  const [row] = await session.rows(`SELECT ${sum} AS sum FROM (SELECT ${columns.join(', ')} FROM range(4096))`);
  expect(String(row?.sum)).toMatch(/^\d+$/);
});

it('and the sum is that of the texts one after the other', async () => {
  const session = await duckdbSession();
  const [row] = await session.rows(
    `SELECT ${rowNumber(duckdbHashing, ['a', 'b'])} AS sum, ('0x' || substr(md5('é' || chr(31) || chr(30)), 1, 15))::BIGINT AS wanted
     FROM (SELECT 'é' AS a, NULL::VARCHAR AS b)`,
  );
  expect(row?.sum).toBe(row?.wanted);
});

import accessors from '@duckdb/node-api/lib/vectors/dataAccessors.js';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { keepMarks, wordsOf } from '../../../src/sdk/duckdb/private-parts.js';
import { Database } from '../../../src/storage/duckdb.js';

let database: Database;
beforeEach(async () => {
  database = await Database.open({ memoryMb: 256, threads: 1 });
});
afterEach(() => database.close());

it('the package still has the names that cdsync replaces, and a text keeps its U+FEFF', async () => {
  const session = await database.connect();
  expect(await session.rows("SELECT chr(65279) || 'a' AS short, chr(65279) || repeat('b', 20) AS long")).toEqual([
    { short: '\uFEFFa', long: `\uFEFF${'b'.repeat(20)}` },
  ]);
  session.close();
});

it('a package without them is an error', () => {
  const { textDecoder } = accessors;
  Object.assign(accessors, { textDecoder: undefined });
  expect(keepMarks).toThrow('decodes texts in another way');
  Object.assign(accessors, { textDecoder });
  expect(() => wordsOf({} as never)).toThrow('keeps numbers in another way');
});

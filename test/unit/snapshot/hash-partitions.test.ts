import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { hashPartitions } from '../../../src/snapshot/unify-parts.js';
import { type GivenRow, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeAll(async () => {
  snapshots = await Snapshots.open();
});
afterAll(() => snapshots.close());

test('few keys are joined at once, whatever their hashes', () => {
  expect(hashPartitions(1000, 1000)).toEqual(['true']);
  expect(hashPartitions(0, 1)).toEqual(['true']);
});

test('more memory holds more keys', () => {
  expect(hashPartitions(20_000_000, 1_920_000)).toHaveLength(11);
  expect(hashPartitions(20_000_000, 40_960_000)).toHaveLength(1);
});

test('each key is in one bucket', async () => {
  const keys = fc.array(fc.string({ unit: 'grapheme-ascii' }), { maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(keys, fc.integer({ min: 1, max: 5 }), async (input, atOnce) => {
      const { session } = await snapshots.store();
      const rows = input.map((key) => `('${key.replaceAll("'", "''")}')`);
      const table = rows.length === 0 ? "SELECT '' AS key WHERE false" : `FROM (VALUES ${rows.join(', ')}) AS k(key)`;
      let found = 0;
      for (const bucket of hashPartitions(input.length, atOnce))
        found += await session.number(`SELECT count(*) FROM (${table}) WHERE ${bucket}`);
      expect(found).toBe(input.length);
    }),
    { numRuns: 20 },
  );
});

test('of copies of a key the last one counts, also where each key is joined alone', async () => {
  const copies: GivenRow[] = [
    { id: 'a', n: 1 },
    { id: 'b', n: 1 },
    { id: 'a', n: 2 },
    { id: 'a', n: 3 },
    { id: 'b', n: 4 },
    { id: 'c', n: 5 },
  ];
  for (const [stream, memoryMb] of [
    ['whole', 256],
    ['pieces', 0.0004],
  ] as const) {
    const { duplicates } = await snapshots.run(stream, copies, { rowsInPart: 2, memoryMb });
    expect(duplicates).toBe(3);
    expect(await snapshots.rows(stream)).toEqual([
      { id: 'a', n: 3 },
      { id: 'b', n: 4 },
      { id: 'c', n: 5 },
    ]);
  }
});

import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { checkRowCounts } from '../../../src/engine/run/row-counts.js';
import { keysTable, storeTable } from '../../../src/snapshot/store-tables.js';
import { noCounters } from '../../../src/storage/journal.js';
import { noUnchangedRows } from '../../../src/storage/unchanged-rows.js';
import { type GivenRow, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const stream = 'members';

/** The result of a commit, published as each run does it: rows, hashes, changes, and all rows of the snapshot's files. */
async function content(own: Snapshots) {
  await own.publish();
  const state = (await own.state()).streams.get(stream);
  const files = (state?.snapshot ?? []).map(({ path }) => `'${own.layout.stream(stream)}/${path}'`);
  return {
    count: state?.rows,
    rows: await own.rows(stream),
    hashes: await own.query(`SELECT key, hash::VARCHAR AS hash FROM ${keysTable(stream)} ORDER BY key`),
    files: await own.query(`SELECT * FROM read_parquet([${files}]) ORDER BY id`),
    changes: await own.query(
      `SELECT * EXCLUDE (_run_id) FROM ${storeTable(`${stream}__changes`)} ORDER BY _synced_at, id`,
    ),
  };
}

/** Gives every stored row the hash that another DuckDB would have given it. */
async function hashOtherwise(own: Snapshots): Promise<void> {
  const { session } = await own.store();
  await session.run(`UPDATE ${keysTable(stream)} SET hash = xor(hash, 1::UBIGINT)`);
}

const runs = fc.array(
  fc.dictionary(
    fc.constantFrom('a', 'b', 'c', "it's", ...Array.from({ length: 12 }, (_, index) => `k${index}`)),
    fc.integer({ min: 0, max: 2 }),
    { minKeys: 1, noNullPrototype: true },
  ),
  { minLength: 2, maxLength: 3 },
);
type Rows = Readonly<Record<string, number>>;

function rowsOf(now: Rows, without: readonly string[] = []): GivenRow[] {
  return Object.entries(now)
    .filter(([id]) => !without.includes(id))
    .map(([id, n]) => ({ id, n }));
}

describe('a reading whose parts hold only what changed', () => {
  test('leaves the same rows, hashes, files and changes as one whose parts hold everything', async () => {
    const resultsOf = async (each: readonly Rows[], leavesOut: boolean) => {
      const own = await Snapshots.open();
      try {
        const found: unknown[] = [];
        let before: Rows = {};
        for (const now of each) {
          const unchanged = leavesOut ? Object.keys(now).filter((id) => before[id] === now[id]) : [];
          const { task } = await own.run(stream, rowsOf(now, unchanged), { unchanged });
          const { cached: _, ...difference } = task.difference;
          found.push(difference, await content(own));
          before = now;
        }
        return found;
      } finally {
        await own.close();
      }
    };
    await fc.assert(
      fc.asyncProperty(runs, async (read) => {
        expect(await resultsOf(read, true)).toEqual(await resultsOf(read, false));
      }),
      { numRuns: 5 },
    );
  });

  test('finds the rows that are gone if every other row is unchanged', async () => {
    await snapshots.run(stream, rowsOf({ a: 1, b: 2, c: 3 }));
    const { task } = await snapshots.run(stream, [], { unchanged: ['a', 'c'] });
    expect(task.difference).toMatchObject({ deleted: 1, unchanged: 2, rows: 2 });
    expect(await snapshots.rows(stream)).toEqual(rowsOf({ a: 1, c: 3 }));
  });

  test('is refused if an unchanged row is missing', async () => {
    await snapshots.run(stream, [{ id: 'a', n: 1 }]);
    await expect(snapshots.run(stream, [], { unchanged: ['a', 'b'] })).rejects.toMatchObject({ code: 'unbalanced' });
  });
});

describe('a reading that only adds', () => {
  const coverage = 'additions' as const;

  test('keeps the hashes of all rows when the way to compute them changes', async () => {
    await snapshots.run(stream, rowsOf({ a: 1, b: 2 }), { coverage });
    await snapshots.publish();
    await hashOtherwise(snapshots);
    await snapshots.run(stream, rowsOf({ c: 3 }), { coverage, duckdbVersion: 'next' });
    const { hashes, files } = await content(snapshots);
    expect(hashes.map(({ key }) => key)).toEqual(['a', 'b', 'c']);
    expect(files).toEqual(rowsOf({ a: 1, b: 2, c: 3 }));
    const again = await snapshots.run(stream, rowsOf({ a: 1 }), { coverage, duckdbVersion: 'next' });
    expect(again.task.difference).toMatchObject({ inserted: 0, updated: 0, unchanged: 3 });
  });

  test('computes all hashes again when the way to compute them changes, also of rows that it does not write again', async () => {
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`k${n}`, n]));
    await snapshots.run(stream, rowsOf(many));
    await hashOtherwise(snapshots);
    const changed = await snapshots.run(stream, rowsOf({ ...many, k7: -1 }), { duckdbVersion: 'next' });
    expect(changed.task.difference).toMatchObject({ updated: 1, unchanged: 39 });
    const again = await snapshots.run(stream, rowsOf({ ...many, k7: -1 }), { duckdbVersion: 'next' });
    expect(again.task.difference).toMatchObject({ updated: 0, unchanged: 40 });
  });

  test('keeps untracked columns up to date', async () => {
    await snapshots.run(stream, rowsOf({ a: 1, b: 2 }), { coverage, untracked: ['n'] });
    const { task } = await snapshots.run(stream, rowsOf({ a: 9 }), { coverage, untracked: ['n'] });
    expect(task.difference).toMatchObject({ inserted: 0, updated: 0, refreshed: 1 });
    const { rows, files } = await content(snapshots);
    expect([rows, files]).toEqual([rowsOf({ a: 9, b: 2 }), rowsOf({ a: 9, b: 2 })]);
  });
});

describe('the balance of a reading', () => {
  const counters = { ...noCounters, read: 10, rejected: 1 };
  const dropped = [{ part: 1, from: 2, to: 4 }];
  const unchangedRows = { records: 3, known: null };

  test('counts rows, copies, rejects, rows read again and unchanged rows', () => {
    checkRowCounts(stream, { counters, dropped, unchangedRows }, { rows: 3, duplicates: 1, forgotten: 0 });
    expect(() =>
      checkRowCounts(stream, { counters, dropped, unchangedRows }, { rows: 4, duplicates: 1, forgotten: 0 }),
    ).toThrow('4 rows, 3 unchanged rows, 3 duplicates');
    expect(() =>
      checkRowCounts(
        stream,
        { counters, dropped, unchangedRows: noUnchangedRows },
        { rows: 3, duplicates: 1, forgotten: 0 },
      ),
    ).toThrow('3 rows, 3 duplicates and 1 rejects');
  });
});

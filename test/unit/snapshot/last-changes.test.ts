import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { storeTable } from '../../../src/snapshot/store-tables.js';
import { type GivenRow, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const view = storeTable('members__last_changes');
const found = (own: Snapshots) =>
  own
    .query(`SELECT _op, key, "column", before, after FROM ${view} ORDER BY ALL`)
    .then((rows) => new Set(rows.map(line)));

function line({ _op, key, column, before, after }: GivenRow): string {
  return [_op, key, column, before, after].map((value) => value ?? '-').join(' ');
}

/** The same by comparing two snapshots. */
function expected(before: readonly GivenRow[], after: readonly GivenRow[]): Set<string> {
  const [old, now] = [before, after].map((rows) => new Map(rows.map((row) => [row.id, row])));
  const keys = new Set([...(old?.keys() ?? []), ...(now?.keys() ?? [])]);
  const lines = [...keys].flatMap((id) => {
    const [was, is] = [old?.get(id), now?.get(id)];
    if (was === undefined || is === undefined) return [line({ _op: was === undefined ? 'insert' : 'delete', key: id })];
    return ['n', 'tier']
      .filter((column) => was[column] !== is[column])
      .map((column) => line({ _op: 'update', key: id, column, before: was[column], after: is[column] }));
  });
  return new Set(lines);
}

const rows = fc.uniqueArray(
  fc.record({
    id: fc.constantFrom('a', 'b', 'c', 'd'),
    n: fc.constantFrom(null, 1, 2),
    tier: fc.constantFrom(null, 'gold', 'silver'),
  }),
  { selector: ({ id }) => id, minLength: 1, maxLength: 4 },
);

describe('the view of the last changes', () => {
  test('names, of any snapshots, each value that the last run changed, and none if it changed nothing', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(rows, { minLength: 2, maxLength: 6 }),
        fc.constantFrom(30, 90, 10_000),
        async (runs, keptMinutes) => {
          const own = await Snapshots.open();
          try {
            // Each snapshot twice: the second run finds no change.
            const doubled = runs.flatMap((present) => [present, present]);
            for (const [index, present] of doubled.entries()) {
              await own.run('members', present, { historyMs: keptMinutes * 60_000 });
              const changed = index === 0 ? new Set<string>() : expected(doubled[index - 1] ?? [], present);
              expect(await found(own)).toEqual(changed);
            }
          } finally {
            await own.close();
          }
        },
      ),
      { numRuns: Number(process.env.CDSYNC_TEST_RUNS ?? 8), endOnFailure: true },
    );
  });

  test('has columns of fixed names and types, and the columns of a key of several', async () => {
    const options = { key: ['segment', 'id'] };
    await snapshots.run(
      'members',
      [{ segment: 's', id: 'a', key: 1, column: 'x', before: { x: 1 }, after: null }],
      options,
    );
    await snapshots.run(
      'members',
      [{ segment: 's', id: 'a', key: 2, column: 'y', before: { x: 2 }, after: 3 }],
      options,
    );
    expect(await snapshots.query(`SELECT column_name, column_type FROM (DESCRIBE ${view})`)).toEqual(
      [
        ...['segment', 'id', 'column', 'before', 'after', '_op', '_run_id'].map((name) => [name, 'VARCHAR']),
        ['_synced_at', 'TIMESTAMP WITH TIME ZONE'],
      ].map(([column_name, column_type]) => ({ column_name, column_type })),
    );
    expect(
      await snapshots.query(`SELECT _op, segment, id, "column", before, after FROM ${view} ORDER BY "column"`),
    ).toEqual(
      [
        ['after', null, '3'],
        ['before', "{'x': 1}", "{'x': 2}"],
        ['column', 'x', 'y'],
        ['key', '1', '2'],
      ].map(([column, before, after]) => ({ _op: 'update', segment: 's', id: 'a', column, before, after })),
    );
  });

  test('ignores untracked columns, and works where a stream has only its key', async () => {
    await snapshots.run('members', [{ id: 'a', seen: 1 }], { untracked: ['seen'] });
    await snapshots.run('members', [{ id: 'b', seen: 2 }], { untracked: ['seen'] });
    expect(await found(snapshots)).toEqual(new Set(['delete a - - -', 'insert b - - -']));
  });
});

import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { commitTimesTable, storeTable } from '../../../src/snapshot/store-tables.js';
import { type GivenRow, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const hour = 3_600_000;

const value = fc.option(fc.constantFrom<unknown>(0, 1, 2, 'x', null), { nil: undefined });

/** The rows of one run, with values that widen their column; undefined for a key that is absent. */
const day = fc.record({ a: value, b: value, c: value });

function rowsOf(values: Readonly<Record<string, unknown>>): GivenRow[] {
  return Object.entries({ ...values, z: 0 }).flatMap(([id, n]) => (n === undefined ? [] : [{ id, n }]));
}

/** The rows of a stream at a time, according to the published file. */
async function asOf(own: Snapshots, at: number): Promise<GivenRow[]> {
  const { session } = await own.store();
  await session.run('USE store');
  try {
    const time = new Date(at).toISOString();
    return await own.query(`SELECT id, n FROM members_as_of('${time}'::TIMESTAMPTZ) ORDER BY id`);
  } finally {
    await session.run('USE memory');
  }
}

describe('the history of a stream', () => {
  test('agrees at any kept time with a model of all versions, whatever was pruned', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(day, { minLength: 2, maxLength: 6 }),
        fc.integer({ min: 0, max: 4 }),
        async (days, keptHours) => {
          const own = await Snapshots.open();
          try {
            const versions: { at: number; rows: GivenRow[] }[] = [];
            for (const values of days) {
              const rows = rowsOf(values);
              const { run, task } = await own.run('members', rows, { historyMs: keptHours * hour + 1 });
              versions.push({ at: Date.parse(run.finishedAt), rows });
              expect(Date.parse(task.syncedAt)).toBe(Date.parse(run.startedAt));
            }
            const [{ first } = {}] = await own.query(
              `SELECT epoch_ms(min(kept_from)) AS first FROM ${commitTimesTable} WHERE stream = 'members'`,
            );
            for (const { at, rows } of versions) {
              for (const time of [at, at + hour / 2]) {
                if (time < Number(first)) await expect(asOf(own, time)).rejects.toThrow();
                else expect(await asOf(own, time)).toEqual(rows);
              }
            }
            const last = versions.at(-1);
            expect(Number(first)).toBeLessThanOrEqual(last?.at ?? 0);
          } finally {
            await own.close();
          }
        },
      ),
      { numRuns: 6, endOnFailure: true },
    );
  });

  test('keeps the earlier version of a row that changes long after its last change was pruned', async () => {
    const historyMs = 90 * 60_000;
    for (const n of [1, 2, 3, 4]) await snapshots.run('members', rowsOf({ a: 1, b: n }), { historyMs });
    const { run } = await snapshots.run('members', rowsOf({ b: 4, c: 1 }), { historyMs });
    const before = Date.parse(run.startedAt) - hour / 2;
    expect(await asOf(snapshots, before)).toEqual(rowsOf({ a: 1, b: 4 }));
    expect(await asOf(snapshots, Date.parse(run.finishedAt))).toEqual(rowsOf({ b: 4, c: 1 }));
  });

  test('has one version for each change, valid until the next', async () => {
    for (const n of [1, 2, 2, 3]) await snapshots.run('members', [{ id: 'a', n }]);
    await snapshots.run('members', [{ id: 'b', n: 9 }]);
    const versions = await snapshots.query(
      `SELECT id, n, hour(_valid_from) AS since, hour(_valid_to) AS until FROM ${storeTable('members__history')} ORDER BY id, n`,
    );
    expect(versions).toEqual([
      { id: 'a', n: 1, since: 0, until: 1 },
      { id: 'a', n: 2, since: 1, until: 3 },
      { id: 'a', n: 3, since: 3, until: 4 },
      { id: 'b', n: 9, since: 4, until: null },
    ]);
  });

  test('has the axis of time that as_of has: when a run committed, also after the first commits were pruned', async () => {
    const commits: string[] = [];
    for (const n of [1, 2, 3, 4]) {
      const { run } = await snapshots.run('members', [{ id: 'a', n }, { id: 'z' }], { historyMs: 90 * 60_000 });
      commits.push(run.finishedAt);
    }
    const { session } = await snapshots.store();
    await session.run('USE store');
    const disagreeing = (at: string) =>
      snapshots.query(
        `(SELECT id, n FROM members_as_of(${at}) EXCEPT SELECT id, n FROM members__history
           WHERE _valid_from <= ${at} AND (_valid_to IS NULL OR ${at} < _valid_to))`,
      );
    for (const commit of commits.slice(2)) {
      for (const seconds of [-90, -30, 0, 30]) {
        const at = `'${new Date(Date.parse(commit) + seconds * 1000).toISOString()}'::TIMESTAMPTZ`;
        expect(await disagreeing(at)).toEqual([]);
      }
    }
    const [unchanged] = await snapshots.query(
      `SELECT _valid_from = (SELECT kept_from FROM cdsync.freshness) AS is_clamped, _began_before, _valid_to FROM members__history WHERE id = 'z'`,
    );
    const earlier = await snapshots.query(
      `SELECT * FROM members__history WHERE _valid_from < (SELECT kept_from FROM cdsync.freshness)
         OR _valid_to <= (SELECT kept_from FROM cdsync.freshness)`,
    );
    await session.run('USE memory');
    expect(unchanged).toEqual({ is_clamped: true, _began_before: true, _valid_to: null });
    expect(earlier).toEqual([]);
  });

  test('ignores untracked columns', async () => {
    const untracked = ['seen'];
    await snapshots.run('members', [{ id: 'a', n: 1, seen: 1 }], { untracked });
    await snapshots.run('members', [{ id: 'a', n: 1, seen: 2 }], { untracked });
    const versions = await snapshots.query(`SELECT * FROM ${storeTable('members__history')}`);
    expect(versions).toHaveLength(1);
    expect(versions[0]).not.toHaveProperty('seen');
  });

  test('prunes nothing, and quickly, if no change is old enough', async () => {
    for (const n of [1, 2, 3]) await snapshots.run('members', [{ id: 'a', n }], { historyMs: 1000 * hour });
    expect(await snapshots.query(`SELECT n FROM ${storeTable('members__changes')} ORDER BY n`)).toEqual([
      { n: 2 },
      { n: 3 },
    ]);
    await snapshots.run('members', [{ id: 'a', n: 4 }], { historyMs: 90 * 60_000 });
    expect(await snapshots.query(`SELECT n FROM ${storeTable('members__changes')} ORDER BY n`)).toEqual([
      { n: 3 },
      { n: 4 },
    ]);
  });

  test('works for columns that have the names of its internal columns', async () => {
    const row = { id: 'a', ts: 5, at: 'b', moment: { at: 'c' }, h: 'd', stream: 'e', committed_at: 'f' };
    await snapshots.run('members', [row]);
    const { session } = await snapshots.store();
    await session.run('USE store');
    const rows = await snapshots.query(
      `SELECT * EXCLUDE (_run_id, _synced_at) FROM members_as_of('2026-11-02T00:00:00Z'::TIMESTAMPTZ)`,
    );
    await session.run('USE memory');
    expect(rows).toEqual([row]);
  });
});

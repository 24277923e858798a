import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { StreamConfig } from '../../../src/config/config.js';
import type { Limit } from '../../../src/config/guard-options.js';
import { evaluateGuards } from '../../../src/engine/run/guards.js';
import type { StreamCommit } from '../../../src/snapshot/commit.js';
import { workTables } from '../../../src/snapshot/unify-parts.js';
import { noCounters } from '../../../src/storage/journal.js';
import { type GivenRow, noGuards, Snapshots } from '../../fixtures/snapshots.js';

type Guards = Partial<StreamConfig['guards']>;

let snapshots: Snapshots;
beforeAll(async () => {
  snapshots = await Snapshots.open();
});
afterAll(() => snapshots.close());

interface Change {
  /** Rows of the last snapshot; left out if there is none. */
  readonly before?: number;
  readonly inserted?: number;
  readonly updated?: number;
  readonly deleted?: number;
  readonly read?: number;
  readonly rejected?: number;
  readonly coverage?: 'everything' | 'additions';
  readonly checksChanges?: boolean;
}

const anyLimit: Limit = { share: 1, atLeast: 1_000_000 };
const nothingElse: Guards = { maxDeleted: anyLimit, maxChanged: anyLimit, maxRejected: anyLimit };

const noApproval = { isBaseline: false, follows: false, accepted: [] };

function guarding(guards: Guards): StreamConfig {
  return { guards: { ...noGuards, ...guards } } as unknown as StreamConfig;
}

/** The findings of guards for a change given only by numbers. */
async function checkChange(change: Change, guards: Guards): Promise<string[]> {
  const { before, inserted = 0, updated = 0, deleted = 0, read = 0, rejected = 0 } = change;
  const store = await snapshots.store();
  const tables = workTables('members');
  await store.session.run(
    `CREATE OR REPLACE TEMP TABLE ${tables.changed} AS SELECT 'p' || i AS key, 'delete' AS op FROM range(${deleted}) AS t(i)`,
  );
  const rows = (before ?? 0) + inserted - deleted;
  const difference = { inserted, updated, deleted, unchanged: rows - inserted - updated, refreshed: 0, rows };
  const previous = before === undefined ? undefined : { rows: before };
  const task = {
    stream: 'members',
    previous,
    difference,
    rows,
    coverage: change.coverage ?? 'everything',
    columns: [],
  };
  const { holds: findings } = await evaluateGuards({
    config: guarding({ ...nothingElse, ...guards }),
    commit: { task, tables } as unknown as StreamCommit,
    counters: { ...noCounters, read, rejected },
    store,
    ...noApproval,
    follows: change.checksChanges === false,
  });
  return findings.map(({ guard }) => guard);
}

/** The findings of guards for real rows. */
async function checkRows(rows: readonly GivenRow[], guards: Guards) {
  const run = await snapshots.nextRun();
  const commit = await snapshots.compare(run, 'members', rows);
  const store = await snapshots.store();
  const config = guarding({ ...nothingElse, ...guards });
  return (await evaluateGuards({ config, commit, counters: noCounters, store, ...noApproval })).holds;
}

const share = (part: number): Limit => ({ share: part, atLeast: 0 });

describe('max_deleted', () => {
  test.each<[string, number, number, Limit, boolean]>([
    ['a count at its border', 100, 5, { count: 5 }, false],
    ['a count one above it', 100, 6, { count: 5 }, true],
    ['no delete with a limit of 0', 100, 0, { count: 0 }, false],
    ['one delete with a limit of 0', 100, 1, { count: 0 }, true],
    ['a share at its border', 1000, 100, share(0.1), false],
    ['a share one above it', 1000, 101, share(0.1), true],
    ['a share of a list so short that one row is more', 9, 1, share(0.1), true],
    ['ten rows of a short list, where ten may always go', 20, 10, { share: 0.1, atLeast: 10 }, false],
    ['eleven rows of a short list, where ten may always go', 20, 11, { share: 0.1, atLeast: 10 }, true],
    ['a share of a fraction of a percent', 100_000, 51, share(0.0005), true],
  ])('%s: %i rows, %i deletes', async (_, before, deleted, limit, holds) => {
    expect(await checkChange({ before, deleted }, { maxDeleted: limit })).toEqual(holds ? ['max_deleted'] : []);
  });

  test('names the first of the keys, and says by how much it is too much', async () => {
    const rows = Array.from({ length: 8 }, (_, index) => ({ id: `p${index}` }));
    await snapshots.run('left', rows);
    const commit = await snapshots.compare(await snapshots.nextRun(), 'left', rows.slice(5));
    const store = await snapshots.store();
    const config = guarding({ maxDeleted: share(0.25) });
    const { holds } = await evaluateGuards({ config, commit, counters: noCounters, store, ...noApproval });
    const [found] = holds;
    expect(found).toEqual({
      guard: 'max_deleted',
      message: '5 of 8 rows deleted (62.5%); the limit is 25%: p0, p1, p2, …',
      figures: '5 of 8 rows deleted (62.5%); the limit is 25%',
    });
  });
});

describe('max_changed', () => {
  test('counts inserts, updates and deletes together', async () => {
    const limit = { maxChanged: { count: 6 } };
    expect(await checkChange({ before: 100, inserted: 2, updated: 2, deleted: 2 }, limit)).toEqual([]);
    expect(await checkChange({ before: 100, inserted: 3, updated: 2, deleted: 2 }, limit)).toEqual(['max_changed']);
  });

  test('does not count additions to a list that only grows', async () => {
    const limit = { maxChanged: { count: 3 } };
    const grows = { before: 10, coverage: 'additions' } as const;
    expect(await checkChange({ ...grows, inserted: 1000, updated: 3 }, limit)).toEqual([]);
    expect(await checkChange({ ...grows, inserted: 1000, updated: 4 }, limit)).toEqual(['max_changed']);
  });

  test('lets a list grow to twice its size at 100%, and no further', async () => {
    expect(await checkChange({ before: 50, inserted: 50 }, { maxChanged: share(1) })).toEqual([]);
    expect(await checkChange({ before: 50, inserted: 51 }, { maxChanged: share(1) })).toEqual(['max_changed']);
  });
});

describe('changes', () => {
  const all = { maxDeleted: { count: 0 }, maxChanged: { count: 0 } };

  test.each<[string, Change]>([
    ['in the first snapshot', { inserted: 10 }],
    ['after a snapshot without rows', { before: 0, inserted: 10 }],
    ['if the stream is a new baseline', { before: 10, updated: 5, deleted: 5, checksChanges: false }],
  ])('are not checked %s', async (_, change) => {
    expect(await checkChange(change, all)).toEqual([]);
  });

  test('break two guards at once', async () => {
    expect(await checkChange({ before: 10, deleted: 1 }, all)).toEqual(['max_deleted', 'max_changed']);
  });
});

describe('min_rows', () => {
  test.each([
    [5, 5, []],
    [4, 5, ['min_rows']],
    [0, 1, ['min_rows']],
    [0, 0, []],
  ])('with %i rows where %i are asked for', async (rows, minRows, guards) => {
    expect(await checkChange({ inserted: rows }, { minRows })).toEqual(guards);
  });

  test('holds a stream that has become empty, unless it is 0', async () => {
    const empty = { before: 5, deleted: 5 };
    expect(await checkChange(empty, { minRows: undefined, maxDeleted: { count: 0 } })).toEqual(['empty_answer']);
    expect(await checkChange(empty, { minRows: 0 })).toEqual([]);
    expect(await checkChange(empty, { minRows: 1 })).toEqual(['min_rows']);
    expect(await checkChange({}, { minRows: undefined })).toEqual([]);
  });
});

describe('max_rejected', () => {
  test.each<[number, number, Limit, boolean]>([
    [1, 100, { count: 0 }, true],
    [0, 100, { count: 0 }, false],
    [3, 100, { count: 3 }, false],
    [4, 100, { count: 3 }, true],
    [5, 100, share(0.05), false],
    [6, 100, share(0.05), true],
  ])('with %i of %i records rejected', async (rejected, read, maxRejected, holds) => {
    expect(await checkChange({ read, rejected }, { maxRejected })).toEqual(holds ? ['max_rejected'] : []);
  });

  test('is checked in the first run too', async () => {
    expect(await checkChange({ inserted: 10, read: 11, rejected: 1 }, { maxRejected: { count: 0 } })).toEqual([
      'max_rejected',
    ]);
  });
});

describe('guards over the rows themselves', () => {
  const rows = [
    { id: 'a', email: 'x', tier: null },
    { id: 'b', email: 'x', tier: 1 },
    { id: 'c', email: null, tier: 2 },
    { id: 'd', email: null, tier: 3 },
  ];

  test.each<[Limit, boolean]>([
    [{ count: 2 }, false],
    [{ count: 1 }, true],
    [share(0.5), false],
    [share(0.49), true],
  ])('max_null: two of four without an email, %j allowed', async (limit, holds) => {
    const found = await checkRows(rows, { maxNull: { email: limit } });
    expect(found.map(({ guard }) => guard)).toEqual(holds ? ['max_null'] : []);
  });

  test('max_null says how much of a column is empty, and leaves a column that is not there to a warning', async () => {
    const found = await checkRows(rows, { maxNull: { email: share(0.25), phone: share(0.9) } });
    expect(found.map(({ message }) => message)).toEqual(['email is empty in 50% of 4 rows; the limit is 25%']);
  });

  test('a share shows more digits where it would look like its limit', async () => {
    const store = await snapshots.store();
    const task = { stream: 'members', previous: undefined, rows: 10, columns: [] };
    const { holds } = await evaluateGuards({
      config: guarding({ ...nothingElse, maxRejected: share(0.1) }),
      commit: { task, tables: workTables('members') } as unknown as StreamCommit,
      counters: { ...noCounters, read: 100_000, rejected: 10_001 },
      store,
      ...noApproval,
    });
    expect(holds[0]?.message).toBe('10,001 of 100,000 records could not be kept (10.001%); the limit is 10%');
  });

  test('unique ignores rows without a value, and columns that are not there', async () => {
    const found = await checkRows(rows, { unique: ['email', 'tier', 'phone'] });
    expect(found).toMatchObject([{ guard: 'unique', message: '1 row with the email of another row; expected 0' }]);
  });

  test('expect sees the rows that are about to be committed, and shows no value of its query', async () => {
    const found = await checkRows(rows, {
      expect: ["SELECT * FROM members WHERE id = 'absent'", "SELECT * FROM members WHERE email = 'x';"],
    });
    expect(found).toMatchObject([
      {
        guard: 'expect',
        message: "the check query returned 2 rows, expected 0: SELECT * FROM members WHERE email = '…';",
      },
    ]);
  });

  test('expect that DuckDB refuses fails the stream', async () => {
    await expect(checkRows(rows, { expect: ['SELECT nothing FROM members'] })).rejects.toMatchObject({
      code: 'sql_failed',
    });
  });

  test('see the earlier rows of a list that only grows, not just the rows of this run', async () => {
    await snapshots.run('growing', [{ id: 'a', n: 1 }], { coverage: 'additions' });
    const run = await snapshots.nextRun();
    const commit = await snapshots.compare(run, 'growing', [{ id: 'b', n: 1 }], { coverage: 'additions' });
    const store = await snapshots.store();
    const config = guarding({ unique: ['n'] });
    const { holds } = await evaluateGuards({ config, commit, counters: noCounters, store, ...noApproval });
    const [found] = holds;
    expect(found?.guard).toBe('unique');
  });

  test('all that are broken are reported together', async () => {
    const found = await checkRows(rows, {
      minRows: 5,
      maxNull: { email: { count: 0 }, tier: { count: 0 } },
      unique: ['email'],
      expect: ['FROM members'],
    });
    expect(found.map(({ guard }) => guard)).toEqual(['min_rows', 'max_null', 'max_null', 'unique', 'expect']);
  });
});

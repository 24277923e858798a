import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { compact, compactionReason } from '../../../src/snapshot/compact.js';
import { forgetRows, hasValue, heldTexts, identifyingValues } from '../../../src/snapshot/forget.js';
import { beforeTable, keysTable, storeTable } from '../../../src/snapshot/store-tables.js';
import { recordDecisions } from '../../../src/storage/decisions.js';
import { JobLayout } from '../../../src/storage/layout.js';
import { filesHolding } from '../../fixtures/files-holding.js';
import { Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const secret = 'a-name-that-must-be-erased';

/** Leaves many free blocks in the store. */
async function freeMuch(): Promise<void> {
  const { session } = await snapshots.store();
  await session.run(
    `CREATE TABLE ${storeTable('much')} AS SELECT hash(i) AS a, hash(i, 1) AS b, hash(i, 2) AS c FROM range(1000000) AS t(i)`,
  );
  await session.run(`DROP TABLE ${storeTable('much')}`);
  await snapshots.detach();
}

/** Rewrites the store if there is a reason, and returns that reason. */
async function compactNow() {
  const store = await snapshots.store();
  const state = await store.state();
  const reason = await compactionReason(store, state);
  await snapshots.detach();
  await compact(snapshots.database, snapshots.layout, { reason, sequence: state.sequence, notice: () => undefined });
  return reason;
}

describe('the texts to search for', () => {
  test('are not those that longer texts of others contain by chance', async () => {
    await snapshots.run('members', [
      { id: 'member-10', friend: 'member-2' },
      { id: 'member-3', friend: 'absent' },
    ]);
    const store = await snapshots.store();
    const state = (await store.state()).streams.get('members');
    if (state === undefined) throw new Error('nothing was committed');
    const { whole, parts } = await heldTexts(store, state, ['member-1', 'member-2', 'member-4']);
    expect([[...whole], [...parts]]).toEqual([['member-2'], ['member-1']]);
  });
});

describe('writing the store again', () => {
  test('has no reason if little is free and no value was removed', async () => {
    await snapshots.run('members', [{ id: 'a', n: 1 }]);
    await snapshots.run('members', [{ id: 'a', n: 2 }]);
    expect(await compactNow()).toBeUndefined();
  });

  test('removes from the disk, once, the values that a rule removed', async () => {
    await snapshots.run('members', [{ id: 'a', name: secret }]);
    await snapshots.publish();
    await snapshots.run('members', [{ id: 'a' }], { dropped: ['name'] });
    expect(await compactNow()).toBe('rewritten');
    await snapshots.publish();
    expect(await filesHolding(snapshots.layout.folder, [secret])).toEqual([]);
    expect(await compactNow()).toBeUndefined();
    expect(await snapshots.rows('members')).toEqual([{ id: 'a' }]);
  });

  test('gives space back if much is free, and loses nothing', async () => {
    await snapshots.run('members', [{ id: 'a', n: 1 }]);
    await freeMuch();
    const before = (await stat(snapshots.layout.store)).size;
    expect(await compactNow()).toBe('free');
    expect((await stat(snapshots.layout.store)).size).toBeLessThan(before / 2);
    expect(await snapshots.rows('members')).toEqual([{ id: 'a', n: 1 }]);
    await snapshots.run('members', [{ id: 'a', n: 2 }]);
    expect(await snapshots.query(`SELECT n FROM ${storeTable('members__history')} ORDER BY n`)).toHaveLength(2);
  });

  test('happens once for a commit, however much it leaves free', async () => {
    await snapshots.run('members', [{ id: 'a', n: 1 }]);
    const reasons: unknown[] = [];
    for (const n of [1, 1, 2]) {
      await snapshots.run('members', [{ id: 'a', n }]);
      await freeMuch();
      reasons.push(await compactNow());
    }
    expect(reasons).toEqual(['free', undefined, 'free']);
  });

  test('may fail if it only saves space, which is reported once, and leaves no file behind', async () => {
    const notices: string[] = [];
    const notice = (line: string) => notices.push(line);
    const nowhere = new JobLayout(snapshots.layout.folder, 'nothing');
    await compact(snapshots.database, nowhere, { reason: 'free', sequence: 1, notice });
    await compact(snapshots.database, nowhere, { reason: 'free', sequence: 1, notice });
    expect(notices).toEqual([expect.stringMatching(/^warning: could not compact the store/)]);
    await expect(compact(snapshots.database, nowhere, { reason: 'rewritten', sequence: 1, notice })).rejects.toThrow();
    expect(await readdir(snapshots.layout.private)).not.toContainEqual(expect.stringMatching(/tmp/));
  });
});

describe('forgetting rows', () => {
  test('erases them from rows, keys, changes, history, rejects and files, as its own commit', async () => {
    const historyMs = 90 * 60_000;
    const rows = (n: number) => [
      { id: 'a', name: secret, n },
      { id: 'b', name: 'another one', n },
    ];
    for (const n of [1, 2]) {
      await snapshots.run('members', rows(n), { historyMs });
      await snapshots.publish();
    }
    const run = await snapshots.nextRun();
    const commit = await snapshots.compare(run, 'members', rows(3), { rowsInPart: 1 });
    await snapshots.commit(run, [{ ...commit, rejects: [{ key: 'a', column: 'n', reason: secret }] }], { historyMs });
    await snapshots.publish();

    const { runId, startedAt } = await snapshots.nextRun();
    const store = await snapshots.store();
    const state = (await store.state()).streams.get('members');
    if (state === undefined) throw new Error('nothing was committed');
    expect(await identifyingValues(store, state, { keys: ['a'], most: 9 })).toEqual([secret]);
    const { layout } = snapshots;
    const folder = join(layout.streamRun(runId, 'members'), 'parts');
    const task = {
      layout,
      state,
      keys: ['a'],
      runId,
      at: startedAt,
      sequence: 4,
      folder,
      compression: 'zstd',
      horizon: '2020-01-01T00:00:00.000Z',
    } as const;
    await recordDecisions(layout, 0, () => [{ action: 'forget' }, { action: 'erased' }]);
    const [forgotten] = await forgetRows(store, [task]);
    expect(forgotten?.rows).toBe(1);
    expect(forgotten?.history).toBeGreaterThan(0);
    for (const table of [storeTable('members'), storeTable('members__changes'), beforeTable('members')]) {
      expect(await snapshots.query(`FROM ${table} WHERE id = 'a'`)).toEqual([]);
    }
    expect(await snapshots.query(`SELECT key FROM ${keysTable('members')}`)).toEqual([{ key: 'b' }]);
    expect(await snapshots.query(`FROM ${storeTable('rejects', 'cdsync')}`)).toEqual([]);
    expect(await snapshots.state()).toMatchObject({ sequence: 4, runId });

    expect(await compactNow()).toBe('rewritten');
    await snapshots.publish({ keepSnapshots: 10 });
    expect(await filesHolding(layout.folder, [secret])).toEqual([]);
    const next = await snapshots.run('members', rows(3).slice(1));
    expect(next.task.difference).toMatchObject({ inserted: 0, updated: 0, deleted: 0, unchanged: 1 });
  });
});

test('finds a text in a column of another type only if the cast keeps all of it', async () => {
  const { session } = await snapshots.store();
  const found = async (type: string, value: string, text: string) =>
    (await session.number(
      `SELECT count(*) FROM (SELECT ${value}::${type} AS v) WHERE ${hasValue([{ name: 'v', type }], [text])}`,
    )) > 0;
  expect(await found('BIGINT', '38', '37.5421')).toBe(false);
  expect(await found('BIGINT', '375421', '375421')).toBe(true);
  expect(await found('DATE', "'2026-01-02'", '2026-01-02T03:04:05Z')).toBe(false);
  expect(await found('DATE', "'2026-01-02'", '2026-01-02')).toBe(true);
  expect(await found('TIMESTAMPTZ', "'2026-01-02 03:04:05Z'", '2026-01-02T03:04:05Z')).toBe(true);
  expect(await found('DECIMAL(9,2)', '37.54', '37.5421')).toBe(false);
  expect(await found('DOUBLE', '37.5421', '37.5421')).toBe(true);
});

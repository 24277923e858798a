import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sqlText } from '../../../src/core/sql.js';
import { forgetRows } from '../../../src/snapshot/forget.js';
import { defineHistory } from '../../../src/snapshot/history.js';
import { publish } from '../../../src/snapshot/publish.js';
import { changesTable, SnapshotStore, storeTable } from '../../../src/snapshot/snapshot-store.js';
import { type GivenRow, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const hour = 3_600_000;
const stream = 'members';
const changes = storeTable(`${stream}__changes`);

async function stateOf(own: Snapshots) {
  const state = (await own.state()).streams.get(stream);
  if (state === undefined) throw new Error('nothing was committed');
  return state;
}

/** Makes of a store what version 2 would have written: a table with all changes. */
async function makeOlder(own: Snapshots): Promise<void> {
  const store = await own.store();
  const { session } = store;
  const { first, ...state } = await stateOf(own);
  if (!first) throw new Error('the store is older already');
  await session.run(`CREATE TABLE ${storeTable('copied')} AS FROM ${changes}`);
  await session.run(`DROP VIEW ${changes}`);
  await session.run(`DROP TABLE ${changesTable({ stream, first })}`);
  await session.run(`ALTER TABLE ${storeTable('copied')} RENAME TO ${stream}__changes`);
  await session.run(`UPDATE ${storeTable('store', '_cdsync')} SET version = 2`);
  await store.rememberStream(state);
  await defineHistory(store, state);
  await own.detach();
}

/** Everything that readers see of the past of a stream. Run ids are random, so those of their times stand for them. */
async function past(own: Snapshots, times: readonly number[]) {
  const seen: unknown[] = [
    await own
      .query(`SELECT * EXCLUDE (_run_id), r.started_at FROM ${changes} JOIN ${storeTable('runs', 'cdsync')} AS r
      ON _run_id = r.run_id ORDER BY ALL`)
      .then((rows) => rows.map(({ run_id, sequence, status, ...row }) => row)),
    await own.query(`DESCRIBE ${changes}`),
    await own.query(`SELECT * EXCLUDE (_run_id) FROM ${storeTable(`${stream}__history`)} ORDER BY ALL`),
  ];
  const { session } = await own.store();
  await session.run('USE store');
  try {
    for (const time of times) {
      const at = sqlText(new Date(time).toISOString());
      const rows = own.query(`SELECT * EXCLUDE (_run_id) FROM ${stream}_as_of(${at}::TIMESTAMPTZ) ORDER BY id`);
      seen.push(await rows.catch(() => 'nothing is kept of that time'));
    }
  } finally {
    await session.run('USE memory');
  }
  return seen;
}

/** Erases a row. Like each command, it publishes before the next one begins. */
async function forget(own: Snapshots, key: string) {
  const { runId, startedAt } = await own.nextRun();
  const store = await own.store();
  const state = await stateOf(own);
  const folder = join(own.layout.streamRun(runId, stream), 'parts');
  const { sequence } = await store.state();
  const at = { keys: [key], runId, at: startedAt, sequence: sequence + 1, folder };
  const forgotten = await forgetRows(store, { layout: own.layout, state, compression: 'zstd', ...at });
  await own.publish();
  return forgotten;
}

const value = fc.constantFrom<unknown>(null, 1, 2, 2.5, 'x', { a: 1 });
const rows = fc.uniqueArray(
  fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd'), v: value, w: value }, { requiredKeys: ['id'] }),
  { selector: ({ id }) => id, minLength: 1, maxLength: 4 },
);
const night = fc.record({
  rows,
  historyMs: fc.constantFrom(30 * 60_000, 90 * 60_000, 150 * 60_000, 100 * hour, 100 * hour),
  dropped: fc.constantFrom<string[]>([], [], [], ['v']),
  brings: fc.constantFrom('everything' as const, 'everything' as const, 'additions' as const),
  rowsInPart: fc.integer({ min: 1, max: 3 }),
  forgets: fc.constantFrom(undefined, undefined, undefined, 'a', 'b'),
});

/** Takes nights, and says after each what readers see and what was erased. */
async function story(nights: readonly (typeof night extends fc.Arbitrary<infer N> ? N : never)[], isOlder: boolean) {
  const own = await Snapshots.open();
  try {
    const seen: unknown[] = [];
    const times: number[] = [];
    for (const [index, { rows: given, forgets, ...options }] of nights.entries()) {
      const kept = given.map((row: GivenRow) =>
        Object.fromEntries(Object.entries(row).filter(([name]) => !options.dropped.includes(name))),
      );
      const { run } = await own.run(stream, kept, options);
      times.push(Date.parse(run.finishedAt), Date.parse(run.finishedAt) + hour / 2);
      if (index === 0 && isOlder) await makeOlder(own);
      await own.publish();
      if (forgets !== undefined) seen.push(await forget(own, forgets));
      seen.push(await past(own, times));
    }
    return seen;
  } finally {
    await own.close();
  }
}

describe('the inserts of the first commit', () => {
  test('look, after any nights, as in a store of version 2, which has them in its table of changes', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(night, { minLength: 1, maxLength: 5 }), async (nights) => {
        expect(await story(nights, false)).toEqual(await story(nights, true));
      }),
      { numRuns: Number(process.env.CDSYNC_TEST_RUNS ?? 6), endOnFailure: true },
    );
  });

  test('are stored once, as rows', async () => {
    await snapshots.run(stream, [
      { id: 'a', n: 1 },
      { id: 'b', n: 1 },
    ]);
    const table = changesTable(await stateOf(snapshots));
    expect(await snapshots.query(`FROM ${table}`)).toEqual([]);
    expect(await snapshots.query(`SELECT _op, id, n FROM ${changes} ORDER BY id`)).toEqual([
      { _op: 'insert', id: 'a', n: 1 },
      { _op: 'insert', id: 'b', n: 1 },
    ]);
    await snapshots.run(stream, [{ id: 'b', n: 2 }]);
    expect(await snapshots.query(`SELECT _op, id FROM ${table} ORDER BY id`)).toEqual([
      { _op: 'delete', id: 'a' },
      { _op: 'update', id: 'b' },
    ]);
  });

  test('do not come back once they are older than the history, though more of it is kept later', async () => {
    await snapshots.run(stream, [{ id: 'a', n: 1 }]);
    await snapshots.run(stream, [{ id: 'a', n: 2 }], { historyMs: hour / 2 });
    await snapshots.run(stream, [{ id: 'a', n: 3 }], { historyMs: 1000 * hour });
    expect(await snapshots.query(`SELECT n FROM ${changes} ORDER BY n`)).toEqual([{ n: 2 }, { n: 3 }]);
    expect(await stateOf(snapshots)).toMatchObject({ first: null });
  });

  test('have the newest value of an untracked column', async () => {
    const untracked = ['seen'];
    await snapshots.run(stream, [{ id: 'a', n: 1, seen: 1 }], { untracked });
    await snapshots.run(stream, [{ id: 'a', n: 1, seen: 2 }], { untracked });
    expect(await snapshots.query(`SELECT _op, n, seen FROM ${changes}`)).toEqual([{ _op: 'insert', n: 1, seen: 2 }]);
  });

  test('are published as Parquet files of their own, one for each of the snapshot', async () => {
    const { changes: files, run } = await snapshots.run(
      stream,
      ['a', 'b', 'c'].map((id) => ({ id, n: 1 })),
      { rowsInPart: 2 },
    );
    expect(files.map((file) => file.rows)).toEqual([2, 1]);
    await snapshots.publish();
    const path = join(snapshots.layout.changes(stream, run.runId), '*.parquet');
    const found = `SELECT * FROM read_parquet(${sqlText(path)}) ORDER BY id`;
    const shown = `SELECT * FROM ${changes} ORDER BY id`;
    expect(await snapshots.query(found)).toEqual(await snapshots.query(shown));
    expect(Object.keys((await snapshots.query(found))[0] ?? {})).toEqual(['_op', '_run_id', '_synced_at', 'id', 'n']);
  });
});

test('a published store of version 2 can be read', async () => {
  await snapshots.run(stream, [{ id: 'a', n: 1 }]);
  await makeOlder(snapshots);
  // The copy is made without opening the store: that would migrate it.
  const older = await SnapshotStore.open(snapshots.database, snapshots.layout);
  const state = await older.state();
  await older.session.run(`UPDATE ${storeTable('store', '_cdsync')} SET version = 2`);
  await older.close();
  const usual = { duckdb: true, mode: 0o644, keepSnapshots: 2, changesBefore: '2026-01-01T00:00:00.000Z' };
  await publish(snapshots.database, snapshots.layout, state, usual);
  const published = await SnapshotStore.openPublished(snapshots.database, snapshots.layout);
  expect((await published?.state())?.streams.get(stream)?.rows).toBe(1);
  await published?.close();
});

import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sqlText } from '../../../src/core/sql.js';
import { readFeed } from '../../../src/snapshot/feed.js';
import { forgetRows } from '../../../src/snapshot/forget.js';
import { changesTable, internalSchema, storeTable } from '../../../src/snapshot/store-tables.js';
import { type GivenRow, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const hour = 3_600_000;
const stream = 'members';
const changes = changesTable(stream);

async function stateOf(own: Snapshots) {
  const state = (await own.state()).streams.get(stream);
  if (state === undefined) throw new Error('nothing was committed');
  return state;
}

/** Makes of a store what version 3 would have written: a schema of another name, and a view of changes that has the first load. */
async function makeOlder(own: Snapshots): Promise<void> {
  const store = await own.store();
  const { session } = store;
  const { first } = await stateOf(own);
  await session.run('USE store');
  await session.run('CREATE SCHEMA _cdsync');
  for (const name of ['store', 'streams', 'moments', `keys_${stream}`, `before_${stream}`])
    await session.run(`CREATE TABLE _cdsync.${name} AS FROM ${storeTable(name, internalSchema)}`);
  await session.run(`CREATE TABLE _cdsync.changes_${stream} AS FROM ${changes}`);
  await session.run('ALTER TABLE _cdsync.moments DROP COLUMN kept_from');
  await session.run('UPDATE _cdsync.store SET version = 3');
  await session.run(`DROP TABLE ${changes}`);
  await session.run(
    `CREATE VIEW ${stream}__changes AS FROM _cdsync.changes_${stream} UNION ALL
     SELECT 'insert', _run_id, _synced_at, id, COLUMNS(* EXCLUDE (id, _run_id, _synced_at, _first_seen_at))
     FROM ${stream} WHERE _synced_at = ${sqlText(String(first?.synced_at))}::TIMESTAMPTZ`,
  );
  await session.run(`DROP SCHEMA ${internalSchema} CASCADE`);
  await session.run('USE memory');
  await own.detach();
}

/** Everything that readers see of the past of a stream. Run ids are random: start times replace them. */
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
  const forgotten = await forgetRows(store, {
    layout: own.layout,
    state,
    compression: 'zstd',
    horizon: '2020-01-01T00:00:00.000Z',
    ...at,
  });
  await own.publish();
  return forgotten;
}

const value = fc.constantFrom<unknown>(null, 1, 2, 2.5, 'x', { a: 1 });
const rows = fc.uniqueArray(
  fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd'), v: value, w: value }, { requiredKeys: ['id'] }),
  { selector: ({ id }) => id, minLength: 1, maxLength: 4 },
);
const day = fc.record({
  rows,
  historyMs: fc.constantFrom(30 * 60_000, 90 * 60_000, 150 * 60_000, 100 * hour, 100 * hour),
  dropped: fc.constantFrom<string[]>([], [], [], ['v']),
  coverage: fc.constantFrom('everything' as const, 'everything' as const, 'additions' as const),
  rowsInPart: fc.integer({ min: 1, max: 3 }),
  forgets: fc.constantFrom(undefined, undefined, undefined, 'a', 'b'),
});

/** Makes these runs, and returns after each the rows that readers see and the result of an erasure. */
async function story(days: readonly (typeof day extends fc.Arbitrary<infer N> ? N : never)[], isOlder: boolean) {
  const own = await Snapshots.open();
  try {
    const seen: unknown[] = [];
    const times: number[] = [];
    for (const [index, { rows: input, forgets, ...options }] of days.entries()) {
      const kept = input.map((row: GivenRow) =>
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

describe('the first load', () => {
  test('is no change, as it was none in a store of version 3 that was migrated', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(day, { minLength: 1, maxLength: 5 }), async (days) => {
        expect(await story(days, true)).toEqual(await story(days, false));
      }),
      { numRuns: Number(process.env.CDSYNC_TEST_RUNS ?? 6), endOnFailure: true },
    );
  });

  test('is stored once, as rows, and readers find only what changed since', async () => {
    await snapshots.run(stream, [
      { id: 'a', n: 1 },
      { id: 'b', n: 1 },
    ]);
    expect(await snapshots.query(`FROM ${changes}`)).toEqual([]);
    await snapshots.run(stream, [
      { id: 'b', n: 2 },
      { id: 'c', n: 1 },
    ]);
    expect(await snapshots.query(`SELECT _op, id FROM ${changes} ORDER BY id`)).toEqual([
      { _op: 'delete', id: 'a' },
      { _op: 'update', id: 'b' },
      { _op: 'insert', id: 'c' },
    ]);
    expect(
      await snapshots.query(`SELECT table_type FROM information_schema.tables WHERE table_name = '${stream}__changes'`),
    ).toEqual([{ table_type: 'BASE TABLE' }]);
  });

  test('has no file of changes: who lacks it needs all rows, and the changes are those after it', async () => {
    const feed = () => readFeed(snapshots.layout, stream);
    const first = await snapshots.run(stream, [{ id: 'a', n: 1 }]);
    await snapshots.publish();
    const { runId } = first.run;
    const since = { complete_since: 1, complete_since_run: runId };
    expect(await feed()).toMatchObject({ sequence: 1, run_id: runId, changes: [], ...since });
    await expect(readdir(dirname(snapshots.layout.changes(stream, runId)))).rejects.toThrow('ENOENT');
    await snapshots.publish();
    expect(await feed()).toMatchObject({ changes: [], ...since });
    const second = await snapshots.run(stream, [{ id: 'b', n: 1 }]);
    await snapshots.publish();
    expect(await feed()).toMatchObject({ sequence: 2, changes: [{ run_id: second.run.runId, rows: 2 }], ...since });
    expect(await readdir(dirname(snapshots.layout.changes(stream, runId)))).toEqual([second.run.runId]);
  });

  test('begins the feed again if the store was put back to before it, even without a history', async () => {
    await snapshots.run('others', [{ id: 'a', n: 1 }]);
    await snapshots.publish();
    await snapshots.run(stream, [{ id: 'a', n: 1 }]);
    await snapshots.publish();
    await snapshots.run(stream, [{ id: 'b', n: 1 }]);
    await snapshots.publish();
    const store = await snapshots.store();
    await store.session.run(`DELETE FROM ${storeTable('streams', internalSchema)} WHERE stream = '${stream}'`);
    const { run, sequence } = await snapshots.run(stream, [{ id: 'c', n: 1 }], { historyMs: -1000 * hour });
    await snapshots.publish();
    const begun = { changes: [], complete_since: sequence, complete_since_run: run.runId };
    expect(await readFeed(snapshots.layout, stream)).toMatchObject({ sequence, run_id: run.runId, ...begun });
  });
});

test('a store of version 3 keeps nothing in the schema that clients listed first, and marks its own tables', async () => {
  await snapshots.run(stream, [{ id: 'a', n: 1 }]);
  await makeOlder(snapshots);
  const tables = await snapshots.query(
    `SELECT schema_name, bool_and(comment IS NOT NULL) AS commented FROM duckdb_tables()
     WHERE database_name = 'store' AND schema_name <> 'main' GROUP BY ALL ORDER BY ALL`,
  );
  expect(tables).toEqual([
    { schema_name: 'cdsync', commented: true },
    { schema_name: internalSchema, commented: true },
  ]);
});

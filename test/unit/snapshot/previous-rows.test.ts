import fc from 'fast-check';
import { expect, test } from 'vitest';
import { previousRows } from '../../../src/engine/run/previous-rows.js';
import { forgetRows } from '../../../src/snapshot/forget.js';
import { commitTimesTable } from '../../../src/snapshot/store-tables.js';
import { recordDecisions } from '../../../src/storage/decisions.js';
import { type GivenRow, type ReadingOptions, Snapshots } from '../../fixtures/snapshots.js';

const stream = 'members';
const hour = 3_600_000;
const value = fc.constantFrom<unknown>(null, 1, 2.5, 'x', true);
const reading = fc.record({
  rows: fc.uniqueArray(
    fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'), v: value, w: fc.integer({ min: 0, max: 2 }) }),
    {
      selector: ({ id }) => id,
      maxLength: 6,
    },
  ),
  options: fc.record({
    coverage: fc.constantFrom('everything' as const, 'everything' as const, 'additions' as const),
    historyMs: fc.constantFrom(1000 * hour, 1000 * hour, 90 * 60_000, 0),
  }) as fc.Arbitrary<ReadingOptions & { historyMs: number }>,
  forgets: fc.constantFrom(undefined, undefined, undefined, 'a'),
});

/** The rows by their ids, with values as any type shows them. */
const shown = (rows: readonly GivenRow[]) =>
  new Map(rows.map(({ id, v, w }) => [id, `${v === null || v === undefined ? 'null' : Number(v) || v}/${Number(w)}`]));

async function previous(own: Snapshots, seen: string | undefined) {
  const store = await own.store();
  const stored = (await store.state()).streams.get(stream);
  const columns = stored?.columns ?? [];
  const found = await previousRows(store, { stored, columns, seen, present: 'SELECT NULL AS id WHERE false' });
  return { ...found, rows: await own.query(found.rows) };
}

async function forget(own: Snapshots, key: string, at: string): Promise<void> {
  const store = await own.store();
  const { streams, sequence } = await store.state();
  const state = streams.get(stream);
  if (state === undefined) throw new Error('there is no snapshot');
  const runId = `forget-${at}`;
  const folder = `${own.layout.folder}/forget-${sequence}`;
  const task = {
    layout: own.layout,
    state,
    keys: [key],
    runId,
    at,
    sequence: sequence + 1,
    folder,
    compression: 'zstd',
    horizon: '2020-01-01T00:00:00.000Z',
  } as const;
  await recordDecisions(own.layout, 0, () => [{ action: 'forget' }, { action: 'erased' }]);
  await forgetRows(store, [task]);
  await own.publish();
}

test('the rows of each earlier snapshot come back exactly as long as the history has them, and no others are taken for them', async () => {
  let compared = 0;
  let missing = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(reading, { minLength: 3, maxLength: 5 }), async (readings) => {
      const own = await Snapshots.open();
      try {
        const snapshots = new Map<string, Map<unknown, string>>();
        for (const { rows, options, forgets } of readings) {
          const { run } = await own.run(stream, rows, options);
          await own.publish();
          const state = (await own.state()).streams.get(stream);
          if (state?.run_id === run.runId) snapshots.set(run.runId, shown(await own.rows(stream)));
          if (forgets === undefined || rows.length === 0) continue;
          await forget(own, forgets, new Date(Date.parse(run.finishedAt) + 60_000).toISOString());
          for (const snapshot of snapshots.values()) snapshot.delete(forgets);
        }
        const { session } = await own.store();
        const kept = await session.rows(`SELECT run_id FROM ${commitTimesTable} WHERE kept_from IS NOT NULL`);
        const keptRuns = new Set(kept.map(({ run_id }) => String(run_id)));
        for (const [runId, expected] of snapshots) {
          const { rows, isGone } = await previous(own, runId);
          expect(isGone).toBe(!keptRuns.has(runId));
          if (isGone) missing += 1;
          else expect(shown(rows)).toEqual(expected);
          compared += 1;
        }
      } finally {
        await own.close();
      }
    }),
    { numRuns: 6 },
  );
  // The cases that matter were among them.
  expect(compared).toBeGreaterThan(8);
  expect(missing).toBeGreaterThan(0);
});

test('a query that has not seen the stream yet compares it with nothing', async () => {
  const own = await Snapshots.open();
  try {
    await own.run(stream, [{ id: 'a', v: 1 }]);
    expect(await previous(own, undefined)).toEqual({ rows: [], version: '', isGone: false });
  } finally {
    await own.close();
  }
});

test('the oldest rows that there are replace those that the store no longer has', async () => {
  const own = await Snapshots.open();
  try {
    const first = await own.run(stream, [{ id: 'a', v: 1 }]);
    await own.run(stream, [{ id: 'a', v: 2 }], { historyMs: 90 * 60_000 });
    const third = await own.run(stream, [{ id: 'a', v: 3 }], { historyMs: 90 * 60_000 });
    await own.run(stream, [{ id: 'a', v: 4 }], { historyMs: 90 * 60_000 });
    const { rows, isGone, version } = await previous(own, first.run.runId);
    expect({ rows, isGone }).toEqual({ rows: [{ id: 'a', v: 2 }], isGone: true });
    expect(version).not.toBe(third.run.runId);
    const never = await previous(own, 'another-run');
    expect(never).toMatchObject({ rows: [{ id: 'a', v: 2 }], isGone: true });
  } finally {
    await own.close();
  }
});

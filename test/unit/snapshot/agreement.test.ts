import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { JobConfig } from '../../../src/config/config.js';
import { systemClock } from '../../../src/core/clock.js';
import { verifyJob } from '../../../src/engine/inspect/verify-job.js';
import { compact, compactionReason } from '../../../src/snapshot/compact.js';
import { forgetRows } from '../../../src/snapshot/forget.js';
import { restoreFiles } from '../../../src/snapshot/restore-files.js';
import { keysTable, storeTable, streamsTable } from '../../../src/snapshot/store-tables.js';
import { recordDecisions } from '../../../src/storage/decisions.js';
import { type GivenRow, type ReadingOptions, Snapshots } from '../../fixtures/snapshots.js';

const value = fc.constantFrom<unknown>(null, 1, 2.5, 'x', '1', true, { a: 1 }, { a: 'y', b: null });
const rows: fc.Arbitrary<GivenRow[]> = fc.uniqueArray(
  fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd', 'e'), v: value, w: value }, { requiredKeys: ['id'] }),
  { selector: ({ id }) => id, maxLength: 5 },
);

/** Something that happens to a stream between two checks. */
type Step =
  | {
      readonly kind: 'run';
      readonly rows: readonly GivenRow[];
      readonly options: ReadingOptions & { historyMs: number };
    }
  | { readonly kind: 'lose' }
  | { readonly kind: 'forget'; readonly key: string };

const hour = 3_600_000;
const run: fc.Arbitrary<Step> = fc.record({
  kind: fc.constant('run' as const),
  rows,
  options: fc.record({
    coverage: fc.constantFrom('everything' as const, 'everything' as const, 'additions' as const),
    untracked: fc.constantFrom([], [], ['w']),
    dropped: fc.constantFrom<string[]>([], [], [], ['v']),
    rowsInPart: fc.integer({ min: 1, max: 3 }),
    historyMs: fc.constantFrom(0, 90 * 60_000, 100 * hour),
  }),
});
const steps = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: run },
    { weight: 1, arbitrary: fc.constant<Step>({ kind: 'lose' }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('forget' as const), key: fc.constantFrom('a', 'b') }) },
  ),
  { minLength: 1, maxLength: 5 },
);

async function take(snapshots: Snapshots, step: Step): Promise<void> {
  const { layout } = snapshots;
  if (step.kind === 'run') {
    // A dropped column is not read either.
    const { dropped = [] } = step.options;
    const kept = step.rows.map((row) =>
      Object.fromEntries(Object.entries(row).filter(([name]) => !dropped.includes(name))),
    );
    await snapshots.run('members', kept, step.options);
    return;
  }
  const store = await snapshots.store();
  const { streams, sequence } = await store.state();
  const state = streams.get('members');
  if (state === undefined) throw new Error('nothing was committed');
  if (step.kind === 'lose') {
    await rm(layout.snapshots('members'), { recursive: true });
    await restoreFiles(store, layout, streams.values(), { thorough: false, compression: 'zstd' });
    return;
  }
  const { runId, startedAt } = await snapshots.nextRun();
  const folder = join(layout.streamRun(runId, 'members'), 'parts');
  const at = { keys: [step.key], runId, at: startedAt, sequence: sequence + 1 };
  await recordDecisions(layout, 0, () => [{ action: 'forget' }, { action: 'erased' }]);
  const horizon = '2020-01-01T00:00:00.000Z';
  await forgetRows(store, [{ layout, state, folder, compression: 'zstd', horizon, ...at }]);
}

/** Publishes the result of the steps, as a run does. */
async function publish(snapshots: Snapshots): Promise<void> {
  const store = await snapshots.store();
  const state = await store.state();
  const reason = await compactionReason(store, state);
  await snapshots.detach();
  await compact(snapshots.database, snapshots.layout, { reason, sequence: state.sequence, notice: () => undefined });
  await snapshots.publish();
}

/** Keys of the versions that the history calls valid now. */
async function presentKeys(snapshots: Snapshots): Promise<unknown[]> {
  const present = `SELECT id FROM ${storeTable('members__history')} WHERE _valid_to IS NULL ORDER BY id`;
  return (await snapshots.query(present)).map(({ id }) => id);
}

test('the store, its history, its published copy, Parquet files and manifests agree, whatever rows come, columns are dropped, files are lost or keys are forgotten', async () => {
  await fc.assert(
    fc.asyncProperty(run, steps, async (first, each) => {
      const snapshots = await Snapshots.open();
      const job = { name: 'job', publish: { duckdb: true } } as unknown as JobConfig;
      const engine = { database: snapshots.database, clock: systemClock, layoutOf: () => snapshots.layout };
      try {
        for (const step of [first, ...each]) {
          await take(snapshots, step);
          await publish(snapshots);
          const { mismatches } = await verifyJob(engine, job);
          expect(mismatches).toEqual([]);
          expect(await presentKeys(snapshots)).toEqual((await snapshots.rows('members')).map(({ id }) => id));
        }
      } finally {
        await snapshots.close();
      }
    }),
    { numRuns: Number(process.env.CDSYNC_TEST_RUNS ?? 4), endOnFailure: true },
  );
});

test('hashes of another version are not compared with those that the present version gives', async () => {
  const snapshots = await Snapshots.open();
  const job = { name: 'job', publish: { duckdb: true } } as unknown as JobConfig;
  const engine = { database: snapshots.database, clock: systemClock, layoutOf: () => snapshots.layout };
  try {
    await snapshots.run('members', [{ id: 'a', v: 1 }]);
    const { session } = await snapshots.store();
    await session.run(`UPDATE ${keysTable('members')} SET hash = xor(hash, 1::UBIGINT)`);
    await publish(snapshots);
    const changed = 'the rows in the store do not match their stored hashes';
    expect((await verifyJob(engine, job)).mismatches).toEqual([expect.objectContaining({ problem: changed })]);
    const other = `json_merge_patch(state::JSON, '{"hash_version": "0:v1"}')`;
    await (await snapshots.store()).session.run(`UPDATE ${streamsTable} SET state = ${other}`);
    await publish(snapshots);
    expect((await verifyJob(engine, job)).mismatches).toEqual([]);
  } finally {
    await snapshots.close();
  }
});

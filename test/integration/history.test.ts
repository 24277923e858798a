import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pruneHistory } from '../../src/snapshot/history.js';
import { SnapshotStore } from '../../src/snapshot/snapshot-store.js';
import { Database } from '../../src/store/duckdb.js';
import { JobLayout } from '../../src/store/layout.js';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

/** Attributes by id: a small integer that becomes text or goes, so that columns widen on the way. */
type Day = ReadonlyMap<string, number | string | null>;

const day: fc.Arbitrary<Day> = fc
  .uniqueArray(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd', 'e'), fc.oneof(fc.nat(2), fc.constantFrom('x', null))), {
    selector: ([id]) => id,
    minLength: 1,
  })
  .map((entries) => new Map(entries));

const days = fc.array(day, { minLength: 3, maxLength: 6 });

async function serve(records: Day): Promise<void> {
  const texts = [...records].map(([id, v]) => JSON.stringify({ id, index_id: 'made', attributes: { v } }));
  await space.control('profiles', { index: 'made', records: texts });
}

/** What a day looks like where the column has become JSON, or has not. */
function plain(rows: readonly Record<string, unknown>[]): Record<string, unknown> {
  return Object.fromEntries(rows.map(({ id, v }) => [String(id), v === null ? null : String(v).replaceAll('"', '')]));
}

function expected(records: Day): Record<string, unknown> {
  return Object.fromEntries([...records].map(([id, v]) => [id, v === null ? null : String(v)]));
}

describe('the history', () => {
  it('tells what every row was at any time that is kept, whatever was pruned', async () => {
    let number = 0;
    await fc.assert(
      fc.asyncProperty(days, fc.nat(5), async (each, cut) => {
        number += 1;
        const job = `history${number}`;
        const stream = { name: 'made', source: 'index_profiles', index: 'made', confirm_deletes: 0 };
        await space.configure(job, [stream], { job: { parquet: { enabled: false } } });
        const moments: { at: string; records: Day }[] = [];
        for (const records of each) {
          await serve(records);
          await space.runWell(job);
          moments.push({ at: new Date().toISOString(), records });
        }
        for (const { at, records } of moments) {
          expect(plain(await space.query(job, `select id, v::varchar as v from made_as_of('${at}')`))).toEqual(
            expected(records),
          );
        }
        const horizon = moments[Math.min(cut, moments.length - 1)]?.at ?? '';
        await prune(job, horizon);
        for (const { at, records } of moments.filter((moment) => moment.at >= horizon)) {
          const rows = await inStore(job, `select id, v::varchar as v from made_as_of('${at}')`);
          expect(plain(rows)).toEqual(expected(records));
        }
        expect(
          plain(await inStore(job, 'select id, v::varchar as v from made__history where _valid_to is null')),
        ).toEqual(expected(each.at(-1) as Day));
        const before = new Date(Date.parse(horizon) - 1).toISOString();
        await expect(inStore(job, `from made_as_of('${before}')`)).rejects.toThrow();
        expect(await inStore(job, `from made__changes where _synced_at < '${horizon}'`)).toEqual([]);
      }),
      { numRuns: Number(process.env.CDSYNC_TEST_RUNS ?? 3), endOnFailure: true },
    );
  }, 300_000);

  it('begins with the first snapshot, and says so', async () => {
    await serve(new Map([['a', 1]]));
    await space.configure('first', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
    await space.runWell('first');
    const { code, stderr } = await space.cdsync(['query', 'first.json', "from made_as_of('2020-01-01')"]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/made_as_of: nothing is kept of that time; the first that is kept is 20/);
    const [fresh] = await space.query(
      'first',
      'select stream, rows, checked_at = changed_at as same from cdsync.freshness',
    );
    expect(fresh).toEqual({ stream: 'made', rows: '1', same: true });
  });
});

describe('the history of columns that are called like what it is made of', () => {
  it('is as any other', async () => {
    const attributes = { ts: 'a', at: 'b', moment: { at: 'c' }, h: 'd', stream: 'e', committed_at: 'f' };
    const record = JSON.stringify({ id: '1', index_id: 'made', attributes });
    await space.control('profiles', { index: 'made', records: [record] });
    await space.configure('named', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
    await space.runWell('named');
    const [row] = await space.query(
      'named',
      'select ts, "at", moment."at" as inner, h, stream, committed_at from made_as_of(now())',
    );
    expect(row).toEqual({ ts: 'a', at: 'b', inner: 'c', h: 'd', stream: 'e', committed_at: 'f' });
  });
});

describe('cdsync diff', () => {
  it('tells what differs between any two snapshots, by column', async () => {
    await space.configure('differing', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
    const snapshots: { run: string; records: Day }[] = [];
    for (const records of [
      new Map([
        ['a', 1],
        ['b', 1],
        ['c', 1],
      ]),
      new Map([
        ['a', 1],
        ['b', 2],
        ['d', 1],
      ]),
      new Map([
        ['a', 3],
        ['b', 2],
        ['d', null],
      ]),
    ] as Day[]) {
      await serve(records);
      snapshots.push({ run: (await space.runWell('differing')).run_id, records });
    }
    for (const [i, from] of snapshots.entries()) {
      for (const [j, to] of snapshots.entries()) {
        if (i === j) continue;
        const words = ['diff', 'differing.json', 'made', '--from', from.run, '--to', to.run, '--json'];
        const found = JSON.parse((await space.cdsync(words)).stdout);
        const keys = (op: string) =>
          found.rows.filter((row: { op: string }) => row.op === op).map(({ key }: { key: string }) => key);
        const both = [...to.records].filter(([id]) => from.records.has(id));
        const updated = both.filter(([id, v]) => from.records.get(id) !== v).map(([id]) => id);
        expect(keys('insert')).toEqual([...to.records.keys()].filter((id) => !from.records.has(id)));
        expect(keys('delete')).toEqual([...from.records.keys()].filter((id) => !to.records.has(id)));
        expect(keys('update')).toEqual(updated);
        expect(found).toMatchObject({
          updated: updated.length,
          columns: updated.length === 0 ? {} : { v: updated.length },
        });
      }
    }
  });

  it('shows the last change to people, values only where they are asked for', async () => {
    const plain = await space.cdsync(['diff', 'differing.json', 'made']);
    expect(plain.stdout).toMatch(/made: 0 inserted, 2 updated, 0 deleted/);
    expect(plain.stdout).not.toContain('->');
    expect((await space.cdsync(['diff', 'differing.json', 'made', '--show-values', '--csv'])).stdout).toContain(
      'update,a,"v: ""1"" -> ""3"""',
    );
    const { code, stderr } = await space.cdsync(['diff', 'differing.json', 'maed']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('did you mean "made"?')]);
    expect((await space.cdsync(['diff', 'differing.json', 'made', '--from', '2020-01-01'])).stderr).toContain(
      'nothing is kept of that time',
    );
  });
});

async function withStore<T>(job: string, work: (store: SnapshotStore) => Promise<T>): Promise<T> {
  const database = await Database.open({ memoryMb: 256, threads: 1 });
  const store = await SnapshotStore.open(database, new JobLayout(`${space.folder}/data`, job));
  try {
    return await work(store);
  } finally {
    await store.close();
    database.close();
  }
}

async function prune(job: string, horizon: string): Promise<void> {
  await withStore(job, async (store) => {
    const { streams } = await store.state();
    for (const state of streams.values()) await pruneHistory(store, state, horizon);
  });
}

async function inStore(job: string, sql: string): Promise<Record<string, unknown>[]> {
  return withStore(job, async ({ session }) => {
    await session.run('USE store');
    try {
      return await session.rows(sql);
    } finally {
      await session.run('USE memory');
    }
  });
}

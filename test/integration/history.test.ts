import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Workspace } from '../fixtures/workspace.js';

let space: Workspace;
beforeAll(async () => {
  space = await Workspace.open({ profiles: 10 });
});
afterAll(() => space.close());

/** The value of a record, by id. */
type Day = ReadonlyMap<string, number | null>;

async function serve(records: Day): Promise<void> {
  const texts = [...records].map(([id, v]) => JSON.stringify({ id, index_id: 'made', attributes: { v } }));
  await space.control('profiles', { index: 'made', records: texts });
}

describe('the history', () => {
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

describe('cdsync diff', () => {
  it('shows what differs between any two snapshots, by column', async () => {
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

  it('shows the last change to people, values only on request', async () => {
    const plain = await space.cdsync(['diff', 'differing.json', 'made']);
    expect(plain.stdout).toMatch(/made: 0 inserted, 2 updated, 0 deleted/);
    expect(plain.stdout).not.toContain('->');
    const short = await space.cdsync(['diff', 'differing.json', 'made', '--csv', '--limit', '1', '--quiet']);
    expect(short.stderr).toMatch(/^warning: only the first 1 of \d+ rows: --limit \d+ has all$/m);
    expect((await space.cdsync(['diff', 'differing.json', 'made', '--show-values', '--csv'])).stdout).toContain(
      'update,a,v: 1 -> 3',
    );
    const { code, stderr } = await space.cdsync(['diff', 'differing.json', 'maed']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('did you mean "made"?')]);
    const early = await space.cdsync(['diff', 'differing.json', 'made', '--from', '2020-01-01']);
    expect([early.code, early.stderr]).toEqual([
      2,
      expect.stringMatching(
        /^error: made: nothing is kept of that time; the first that is kept is 20.* \[run_not_found\]$/m,
      ),
    ]);
    const values = await space.cdsync(['diff', 'differing.json', 'made', '--column', 'v', '--show-values']);
    expect(values.stdout).toMatch(/^made: v changed in 2 rows\n/);
    expect(values.stdout).toMatch(/^ {2}a +\S+ -> \S+$/m);
    const words = ['diff', 'differing.json', 'made', '--column', 'v', '--show-values', '--json'];
    expect(JSON.parse((await space.cdsync(words)).stdout).rows).toEqual([
      { op: 'update', key: 'a', columns: [{ column: 'v', before: 1, after: 3 }] },
      { op: 'update', key: 'd', columns: [{ column: 'v', before: 1, after: null }] },
    ]);
  });
});

it('keeps the sign of each zero in Parquet, and changes no row by it', async () => {
  const record = (n: number, v: string, e: string) =>
    `{"id":"p${n}","index_id":"made","attributes":{"v":${v},"e":"${e}"}}`;
  const runOnce = async (texts: readonly string[]) => {
    await space.control('profiles', { index: 'made', records: texts });
    const { streams } = await space.runWell('zeros');
    return streams[0]?.updated;
  };
  const zeros = (changed: readonly number[], value = (n: number): string => (n % 2 === 0 ? '-0.0' : '0.0')) =>
    Array.from({ length: 20 }, (_, n) => record(n, value(n), changed.includes(n) ? 'new' : 'old'));
  const signs = async () => {
    const files = join(space.jobFolder('zeros'), 'parquet', 'made', 'current', '*.parquet');
    const sql = `select count(*)::int as n from '${files}' where v::varchar = '-0.0'`;
    return (await space.query('zeros', sql))[0]?.n;
  };
  await space.configure('zeros', [{ name: 'made', source: 'index_profiles', index: 'made' }]);
  await runOnce(zeros([]));
  expect(await signs()).toBe(10);
  expect([await runOnce(zeros([7])), await signs()]).toEqual([1, 10]);
  expect([await runOnce(zeros([7, 8])), await signs()]).toEqual([1, 10]);
  // Another type: every stored row is hashed again.
  expect(await runOnce(zeros([7, 8], (n) => (n === 3 ? '"t"' : n % 2 === 0 ? '-0.0' : '0.0')))).toBe(1);
  expect((await space.cdsync(['verify', 'zeros.json'])).code).toBe(0);
});

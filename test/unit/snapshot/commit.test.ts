import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { statOrUndefined } from '../../../src/core/durable.js';
import type { StreamCommit } from '../../../src/snapshot/commit.js';
import { aboutTable, beforeTable, changesTable, keysTable, storeTable } from '../../../src/snapshot/store-tables.js';
import { type GivenRow, type ReadingOptions, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

const many = (from: number, to: number, more: (n: number) => GivenRow = () => ({})): GivenRow[] =>
  Array.from({ length: to - from }, (_, index) => ({ id: `p${from + index}`, n: from + index, ...more(from + index) }));

/** The stream's rows with their times, and the hashes that the store keeps beside them. */
async function stored(stream: string) {
  const rows = await snapshots.query(`SELECT * EXCLUDE (_run_id) FROM ${storeTable(stream)} ORDER BY id`);
  const keys = await snapshots.query(`SELECT key, hash::VARCHAR AS hash FROM ${keysTable(stream)} ORDER BY key`);
  return { rows, keys };
}

/** The rows in the files of the stream's snapshot, which are not published yet. */
async function filed(stream: string) {
  const { snapshot } = (await snapshots.state()).streams.get(stream) ?? { snapshot: [] };
  const files = snapshot.map(({ from }) => `'${join(snapshots.layout.folder, from)}'`);
  return snapshots.query(`SELECT * FROM read_parquet([${files.join(', ')}]) ORDER BY id`);
}

describe('a commit', () => {
  test('stores the same rows, times and hashes whether it patches the table or rebuilds it', async () => {
    // Both streams have the same changed rows, but one is so long that its table is patched.
    const ballast = many(1000, 1100);
    const change = async (stream: string, rest: readonly GivenRow[]) => {
      await snapshots.run(stream, [...many(0, 6), ...rest]);
      await snapshots.run(stream, [...many(2, 5), { id: 'p5', n: -5 }, { id: 'p7', n: 7, tier: 'new' }, ...rest]);
      await snapshots.run(stream, [...many(2, 5), { id: 'p0', n: 0 }, { id: 'p7', n: 8 }, ...rest]);
      const { rows, keys } = await stored(stream);
      const isOwn = (id: unknown) => String(id).length < 4;
      return { rows: rows.filter(({ id }) => isOwn(id)), keys: keys.filter(({ key }) => isOwn(key)) };
    };
    const times = (found: { rows: GivenRow[] }) =>
      found.rows.map(({ _synced_at, _first_seen_at, ...row }) => ({ ...row, isNew: _synced_at === _first_seen_at }));
    const [rebuilt, patched] = [await change('short', []), await change('long', ballast)];
    expect(times(patched)).toEqual(times(rebuilt));
    expect(patched.keys).toEqual(rebuilt.keys);
    expect(times(patched)).toEqual([
      { id: 'p0', n: 0, tier: null, isNew: true },
      { id: 'p2', n: 2, tier: null, isNew: true },
      { id: 'p3', n: 3, tier: null, isNew: true },
      { id: 'p4', n: 4, tier: null, isNew: true },
      { id: 'p7', n: 8, tier: null, isNew: false },
    ]);
  });

  test('leaves the store with exactly the rows that were read, and with their hashes, however columns widen', async () => {
    const value = fc.constantFrom<unknown>(null, 1, 2.5, 'x', true);
    const reading = fc.tuple(
      fc.uniqueArray(fc.record({ id: fc.constantFrom('a', 'b', 'c', 'd'), v: value }), { selector: ({ id }) => id }),
      fc.boolean(),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(reading, { minLength: 2, maxLength: 4 }), async (readings) => {
        const own = await Snapshots.open();
        try {
          for (const [rows, isLong] of readings) {
            const all = [...rows, ...(isLong ? many(0, 60) : [])];
            const { task } = await own.run('members', all);
            const plain = (row: GivenRow) => ({ id: row.id, v: row.v ?? null, n: row.n ?? null });
            const byId = (one: GivenRow, other: GivenRow) => (String(one.id) < String(other.id) ? -1 : 1);
            expect((await own.rows('members')).map(plain).sort(byId)).toEqual(all.map(plain).sort(byId));
            const keys = await own.query(`SELECT key FROM ${keysTable(task.stream)} ORDER BY key`);
            expect(keys.map(({ key }) => key)).toEqual(all.map(({ id }) => id).sort());
          }
        } finally {
          await own.close();
        }
      }),
      { numRuns: 8, endOnFailure: true },
    );
  });

  test('gives a sequence number only where something changed, and still records each run', async () => {
    const sequences: number[] = [];
    for (const rows of [many(0, 3), many(0, 3), many(0, 4)])
      sequences.push((await snapshots.run('members', rows)).sequence);
    expect(sequences).toEqual([1, 1, 2]);
    expect(await snapshots.query(`SELECT sequence, status FROM ${storeTable('runs', 'cdsync')}`)).toHaveLength(3);
    expect(
      await snapshots.query(`SELECT changed, rows, inserted, unchanged FROM ${storeTable('streams', 'cdsync')}`),
    ).toEqual([
      { changed: true, rows: 3, inserted: 3, unchanged: 0 },
      { changed: false, rows: 3, inserted: 0, unchanged: 3 },
      { changed: true, rows: 4, inserted: 1, unchanged: 3 },
    ]);
  });

  test.each([
    ['in one transaction', Number.POSITIVE_INFINITY],
    ['divided', 2],
  ])('is all or nothing: a failure in its middle leaves the store as it was, %s', async (_, columnsAtOnce) => {
    await snapshots.run('members', many(0, 3));
    const before = await stored('members');
    const run = await snapshots.nextRun();
    const good = await snapshots.compare(run, 'members', many(0, 9));
    const bad = await snapshots.compare(run, 'other', many(0, 1));
    const files = bad.task.files.map((file) => ({ ...file, path: '/nowhere/1.parquet' }));
    const broken = { ...bad, task: { ...bad.task, files } };
    await expect(snapshots.commit(run, [good, broken], { columnsAtOnce })).rejects.toThrow();
    expect(await stored('members')).toEqual(before);
    expect((await snapshots.state()).sequence).toBe(1);
    expect([...(await snapshots.state()).streams.keys()]).toEqual(['members']);
    expect((await readdir(snapshots.layout.private)).filter((name) => name.includes('.tmp'))).toEqual([]);
    await snapshots.detach();
    expect(await stored('members')).toEqual(before);
  });

  test('of many columns is divided, and counts when its last part does', async () => {
    const names = ['a', 'b', 'c'];
    const historyMs = 30 * 60_000;
    const versions = [many(0, 3), [...many(1, 3), { id: 'p1000', n: 'x' }], [{ id: 'p0', n: 'y', tier: 'new' }]];
    const whole = await Snapshots.open();
    const kept = async (own: Snapshots) => {
      const found: unknown[] = [];
      for (const name of names)
        for (const table of [storeTable(name), changesTable(name), beforeTable(name), keysTable(name)])
          found.push(
            await own.query(
              `SELECT count(*), bit_xor(hash(COLUMNS(* EXCLUDE (_run_id)))) FROM (SELECT *, NULL AS _run_id FROM ${table})`,
            ),
          );
      const runs = `SELECT sequence, finished_at::VARCHAR AS at FROM ${storeTable('runs', 'cdsync')} ORDER BY 1`;
      return [
        ...found,
        await own.query(runs),
        await own.query(`SELECT stream, sequence, rows, inserted FROM ${storeTable('streams', 'cdsync')} ORDER BY ALL`),
      ];
    };
    try {
      for (const rows of versions) {
        for (const [own, columnsAtOnce] of [
          [whole, Number.POSITIVE_INFINITY],
          [snapshots, 2],
        ] as const) {
          const run = await own.nextRun();
          const commits: StreamCommit[] = [];
          for (const name of names) commits.push(await own.compare(run, name, rows));
          const store = await own.store();
          const { transaction } = store.session;
          const files: Buffer[] = [];
          store.session.transaction = async (work, signal) => {
            files.push(await readFile(own.layout.store));
            return transaction.call(store.session, work, signal) as never;
          };
          await own.commit(run, commits, { historyMs, columnsAtOnce });
          // A commit that is killed before its last part leaves the file of the last commit.
          expect(files.length).toBe(own === whole ? 1 : 7);
          for (const file of files) expect(file.equals(files[0] as Buffer)).toBe(true);
          await own.detach();
        }
      }
      expect(await kept(snapshots)).toEqual(await kept(whole));
    } finally {
      await whole.close();
    }
  });

  test('keeps rejects and columns for those who open the file', async () => {
    const run = await snapshots.nextRun();
    const commit = await snapshots.compare(run, 'members', [{ id: 'a', n: 1 }]);
    const rejects = [{ key: null, column: 'n', reason: 'no key' }];
    await snapshots.commit(run, [{ ...commit, rejects }]);
    expect(await snapshots.query(`SELECT key, column_name, reason FROM ${storeTable('rejects', 'cdsync')}`)).toEqual([
      { key: null, column_name: 'n', reason: 'no key' },
    ]);
    expect(await snapshots.query(`SELECT path, type, since_run FROM ${storeTable('columns', 'cdsync')}`)).toEqual([
      { path: 'id', type: 'VARCHAR', since_run: run.runId },
      { path: 'n', type: 'BIGINT', since_run: run.runId },
    ]);
  });
});

describe('a snapshot that grows', () => {
  const additions: ReadingOptions = { coverage: 'additions' };

  test('gets one more file if rows were only inserted, and leaves the others alone', async () => {
    await snapshots.run('events', many(0, 3), additions);
    await snapshots.publish();
    const { task } = await snapshots.run('events', many(2, 5), additions);
    expect(task.addition?.map(({ rows }) => rows)).toEqual([2]);
    const { snapshot } = (await snapshots.state()).streams.get('events') ?? { snapshot: [] };
    expect(snapshot.map(({ rows }) => rows)).toEqual([3, 2]);
    expect(await snapshots.rows('events')).toEqual(many(0, 5));
  });

  test('adds nothing if no row was read', async () => {
    await snapshots.run('events', many(0, 3), additions);
    const { task, sequence } = await snapshots.run('events', [], additions);
    expect({ addition: task.addition, sequence }).toEqual({ addition: [], sequence: 1 });
  });

  test.each<[string, GivenRow]>([
    ['a row changed', { id: 'p1', n: -1 }],
    ['a column was added', { id: 'p9', n: 9, tier: 'x' }],
    ['a type widened', { id: 'p9', n: 9.5 }],
  ])('is rewritten as a whole if %s', async (_, row) => {
    await snapshots.run('events', many(0, 3), additions);
    const { task } = await snapshots.run('events', [row], additions);
    expect(task.addition).toBeUndefined();
    expect(task.again).toBeDefined();
    const expected = new Map([...many(0, 3), row].map((each) => [each.id, each]));
    expect(await snapshots.rows('events')).toMatchObject([...expected.values()]);
    const keys = await snapshots.query(`SELECT key FROM ${keysTable('events')} ORDER BY key`);
    expect(keys.map(({ key }) => key)).toEqual([...expected.keys()]);
    expect(await filed('events')).toMatchObject([...expected.values()]);
  });

  test('is written again only by the commit, for it may be held', async () => {
    await snapshots.run('events', many(0, 30), additions);
    const run = await snapshots.nextRun();
    const commit = await snapshots.compare(run, 'events', [{ id: 'p1', n: -1 }], additions);
    const [{ path } = { path: '' }] = commit.task.again ?? [];
    expect(await statOrUndefined(path)).toBeUndefined();
    await snapshots.commit(run, [commit]);
    expect(await statOrUndefined(path)).toBeDefined();
    expect(await filed('events')).toEqual(await snapshots.rows('events'));
  });

  test('is not committed if its file cannot be written', async () => {
    await snapshots.run('events', many(0, 30), additions);
    const before = await snapshots.rows('events');
    const run = await snapshots.nextRun();
    const commit = await snapshots.compare(run, 'events', [{ id: 'p1', n: -1 }], additions);
    const { again } = commit.task;
    if (again === undefined) throw new Error('the file was written already');
    const nowhere = again.map((file) => ({ ...file, path: join(snapshots.layout.folder, 'nowhere', 'whole.parquet') }));
    const failing = { ...commit, task: { ...commit.task, again: nowhere } };
    await expect(snapshots.commit(run, [failing])).rejects.toMatchObject({ code: 'storage_failed' });
    expect(await snapshots.rows('events')).toEqual(before);
    expect(await snapshots.commit(run, [commit])).toBe(2);
  });

  test('has two files if it is long, each row in one of them', async () => {
    const rows = many(0, 100_001);
    await snapshots.run('events', rows, additions);
    const { task } = await snapshots.run('events', [{ id: 'p1', n: -1 }], additions);
    expect(task.again).toHaveLength(2);
    const { snapshot } = (await snapshots.state()).streams.get('events') ?? { snapshot: [] };
    expect(snapshot.every(({ rows: count }) => count > 40_000)).toBe(true);
    const files = await filed('events');
    expect(files.length).toBe(rows.length);
    expect(new Set(files.map(({ id }) => id)).size).toBe(rows.length);
    expect(files.find(({ id }) => id === 'p1')).toEqual({ id: 'p1', n: -1 });
  });

  test('stops writing its file if the commit fails otherwise', async () => {
    await snapshots.run('events', many(0, 30), additions);
    const run = await snapshots.nextRun();
    const commit = await snapshots.compare(run, 'events', [{ id: 'p1', n: -1 }], additions);
    const failing = { ...commit, task: { ...commit.task, changesPath: join(snapshots.layout.folder, 'none.parquet') } };
    await expect(snapshots.commit(run, [failing])).rejects.toMatchObject({ code: 'database_failed' });
    // Nothing uses the store any more, so it can be closed and opened again.
    await snapshots.detach();
    expect((await snapshots.run('events', [{ id: 'p1', n: -1 }], additions)).sequence).toBe(2);
  });

  test('is rewritten as a whole once it has many files', async () => {
    await snapshots.run('events', many(0, 1), additions);
    const state = (await snapshots.state()).streams.get('events');
    const [file] = state?.snapshot ?? [];
    if (state === undefined || file === undefined) throw new Error('nothing was committed');
    const store = await snapshots.store();
    await store.rememberStream({ ...state, snapshot: Array.from({ length: 63 }, () => file) });
    expect((await snapshots.run('events', many(1, 2), additions)).task.addition).toHaveLength(1);
    expect((await snapshots.state()).streams.get('events')?.snapshot).toHaveLength(64);
    expect((await snapshots.run('events', many(2, 3), additions)).task.addition).toBeUndefined();
    expect((await snapshots.state()).streams.get('events')?.snapshot).toHaveLength(1);
    expect(await snapshots.rows('events')).toHaveLength(3);
  });
});

describe('the store', () => {
  test('has an earlier table that follows the columns of the stream', async () => {
    const historyMs = 30 * 60_000;
    await snapshots.run('members', [{ id: 'a', n: 1 }], { historyMs });
    await snapshots.run('members', [{ id: 'a', n: 2 }], { historyMs });
    await snapshots.run('members', [{ id: 'a', n: 'three', tier: 'x' }], { historyMs });
    expect(await snapshots.query(`SELECT id, n, tier FROM ${beforeTable('members')}`)).toEqual([
      { id: 'a', n: 2, tier: null },
    ]);
  });

  test('still knows a stream if the disk is full while its state is replaced', async () => {
    await snapshots.run('members', [{ id: 'a', n: 1 }]);
    const store = await snapshots.store();
    const state = (await store.state()).streams.get('members');
    const { session } = store;
    const run = session.run.bind(session);
    let statements = 0;
    session.run = (sql) => {
      statements += 1;
      return statements > 1 ? Promise.reject(new Error('no space left on device')) : run(sql);
    };
    await store.rememberStream({ ...(state as NonNullable<typeof state>), covered: [] }).catch(() => undefined);
    session.run = run;
    await snapshots.detach();
    expect([...(await snapshots.state()).streams.keys()]).toEqual(['members']);
  });

  test('can be closed wherever a signal stops its statements', async () => {
    await snapshots.run('members', [{ id: 'a', n: 1 }]);
    const { session } = await snapshots.store();
    const signal = new AbortController();
    const stopped = session.until(signal.signal, async () => {
      await session.run('USE store');
      signal.abort();
      await session.run('USE memory');
    });
    await expect(stopped).rejects.toMatchObject({ kind: 'interrupted' });
    await snapshots.detach();
    expect(await snapshots.rows('members')).toHaveLength(1);
  });
});

test.each([
  [1, 'state_unreadable', /too old$/],
  [99, 'storage_newer', /newer cdsync$/],
])('a store of version %d is refused and stays as it is', async (version, code, message) => {
  await snapshots.run('members', many(0, 2));
  const { session } = await snapshots.store();
  await session.run(`UPDATE ${aboutTable} SET version = ${version}`);
  await snapshots.detach();
  for (let attempt = 0; attempt < 2; attempt += 1)
    await expect(snapshots.store()).rejects.toMatchObject({ code, message: expect.stringMatching(message) });
});

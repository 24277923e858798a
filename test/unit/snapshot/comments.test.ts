import { DuckDBInstance } from '@duckdb/node-api';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { columnComment, fitComments } from '../../../src/snapshot/comments.js';
import { type GivenRow, Snapshots } from '../../fixtures/snapshots.js';

let snapshots: Snapshots;
beforeEach(async () => {
  snapshots = await Snapshots.open();
});
afterEach(() => snapshots.close());

/** The comments in the published file, by `table` and `table.column`. */
async function comments(): Promise<Map<string, string>> {
  const instance = await DuckDBInstance.create(snapshots.layout.link, { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  try {
    const found = await connection.runAndReadAll(
      `SELECT table_name, comment FROM duckdb_tables() WHERE comment IS NOT NULL
       UNION ALL SELECT view_name, comment FROM duckdb_views() WHERE comment IS NOT NULL
       UNION ALL SELECT table_name || '.' || column_name, comment FROM duckdb_columns() WHERE comment IS NOT NULL`,
    );
    return new Map(found.getRows().map(([name, comment]) => [String(name), String(comment)]));
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

/** Everything for readers that has no comment, the comments on internal tables, and the schemas in the order of `SHOW ALL TABLES`. */
async function inventory() {
  const instance = await DuckDBInstance.create(snapshots.layout.link, { access_mode: 'READ_ONLY' });
  const connection = await instance.connect();
  const column = async (sql: string) => (await connection.runAndReadAll(sql)).getRows().map(([value]) => String(value));
  try {
    const shown =
      "database_name = current_database() AND schema_name IN ('main', 'cdsync') AND NOT internal AND comment IS NULL";
    return {
      bare: [
        ...(await column(`SELECT table_name FROM duckdb_tables() WHERE ${shown}`)),
        ...(await column(`SELECT view_name FROM duckdb_views() WHERE ${shown}`)),
        ...(await column(`SELECT table_name || '.' || column_name FROM duckdb_columns() WHERE ${shown}`)),
        ...(await column(`SELECT function_name FROM duckdb_functions() WHERE ${shown}`)),
      ],
      internal: await column(`SELECT DISTINCT comment FROM duckdb_tables() WHERE schema_name = 'private'`),
      order: await column('SELECT schema FROM (SHOW ALL TABLES)'),
    };
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

test('tables, views and columns of the published file have comments on their content and origin', async () => {
  const { run } = await snapshots.run('members', [{ id: 'a', tier: 'gold', seen: 1 }], { untracked: ['seen'] });
  await snapshots.publish();
  const found = await comments();
  const own = ([name]: [string, string]) => name.startsWith('members.') || name === 'members';
  expect(new Map([...found].filter(own))).toEqual(
    new Map([
      ['members', 'stream members of job job: from sql, key id'],
      ['members.id', `from id; since run ${run.runId}`],
      ['members.tier', `from tier; since run ${run.runId}`],
      ['members.seen', `from seen; since run ${run.runId}; not tracked: a new value alone is no change`],
      ['members._run_id', 'the run that last changed the row'],
      ['members._synced_at', 'when that run began'],
      ['members._first_seen_at', 'when the first run that had the row began'],
    ]),
  );
  expect(found.get('members__history.tier')).toBe(found.get('members.tier'));
});

test('every table, view, macro and column that readers meet has a comment, after changes and a rewrite of the store too', async () => {
  const rows = Array.from({ length: 20 }, (_, n) => ({ id: `p${n}`, n }));
  await snapshots.run('members', rows);
  for (const change of [{ n: 99 }, { n: 99, more: 'x' }, { n: 9.5 }]) {
    await snapshots.run('members', [{ ...rows[0], ...change } as GivenRow, ...rows.slice(1)]);
    await snapshots.publish();
    const { bare, internal, order } = await inventory();
    expect(bare).toEqual([]);
    expect(internal).toEqual(['internal']);
    expect(order).toEqual([...order].sort((a, b) => Number(a === 'private') - Number(b === 'private')));
  }
});

test('the comment of a column keeps the run that added it, whether rows are patched, added or rewritten', async () => {
  const rows = Array.from({ length: 20 }, (_, n) => ({ id: `p${n}`, n }));
  const { run: first } = await snapshots.run('members', rows);
  const patched = rows.map((row) => (row.n === 3 ? { ...row, n: 4, more: 'x' } : row));
  const { run: second } = await snapshots.run('members', patched);
  const widened = rows.map((row) => ({ ...row, n: row.n + 0.5 }));
  await snapshots.run('members', widened);
  await snapshots.run('members', widened.slice(0, 12));
  await snapshots.publish();
  const found = await comments();
  expect([found.get('members.n'), found.get('members.more')]).toEqual([
    `from n; since run ${first.runId}`,
    `from more; since run ${second.runId}`,
  ]);
});

test('a table of many columns has its own comment only, which says where the others are', async () => {
  const row = Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`c${n}`, n]));
  await snapshots.run('members', [{ id: 'a', ...row }]);
  await snapshots.publish();
  const found = await comments();
  expect(found.get('members')).toMatch(/; where each column .* from: cdsync\.columns$/);
  expect([...found.keys()].filter((name) => name.startsWith('members.'))).toEqual([]);
});

test('a comment names the rules of a column, and neither its salt nor a value', () => {
  const column = { place: 'attribute' as const, field: 'email', name: 'mail', shape: { k: 0 } };
  const of = (more: object) => columnComment({ ...column, ...more } as Parameters<typeof columnComment>[0], 'RUN');
  const salt = 'a1b2c3d4e5f60718';
  expect(of({})).toBe('from attributes.email; since run RUN');
  expect(of({ rule: { hash: { salt, normalize: 'email' } } })).toBe(
    'from attributes.email; since run RUN; hashed with HMAC-SHA-256, normalized as email',
  );
  expect(of({ rule: { hash: { salt } } })).not.toContain(salt);
  expect(of({ rule: { mask: 'last4' }, untracked: true })).toBe(
    'from attributes.email; since run RUN; masked: last4; not tracked: a new value alone is no change',
  );
  expect(of({ rule: { cast: 'DATE' } })).toBe('from attributes.email; since run RUN; type set to DATE');
  expect(of({ text: 'DATE %Y-%m-%d' })).toBe('from attributes.email; since run RUN; text that reads as DATE %Y-%m-%d');
  expect(of({ text: 'VARCHAR' })).toBe('from attributes.email; since run RUN');
  expect(of({ field: 'a\0b' })).toBe('from attributes.a\\0b; since run RUN');
});

test('columns have comments unless the tables of a commit have too many', () => {
  const many = (count: number, columns: number) => fitComments(Array.from({ length: count }, () => columns));
  expect([many(1, 33), many(60, 33), many(1, 500)]).toEqual([true, true, true]);
  expect([many(65, 33), many(1, 501), many(2, 400)]).toEqual([false, false, false]);
});

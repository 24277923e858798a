import { mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { openPublished, type Published } from '../../../src/snapshot/published.js';
import { sweepStorage } from '../../../src/storage/storage.js';
import { Snapshots } from '../../fixtures/snapshots.js';

const limits = { memoryMb: 256, threads: 2 };

let snapshots: Snapshots;
let outside: string;
let secret: string;
let published: Published;
beforeAll(async () => {
  outside = await mkdtemp(join(tmpdir(), 'cdsync-outside-'));
  secret = join(outside, 'secret.csv');
  await writeFile(secret, 'word\nplugh\n');
  snapshots = await Snapshots.open();
  await snapshots.run('members', [
    { id: 'p1', n: 1 },
    { id: 'p2', n: 2 },
  ]);
  await snapshots.run('members', [
    { id: 'p1', n: 1 },
    { id: 'p2', n: 3 },
  ]);
  await snapshots.publish();
  published = await openPublished(snapshots.layout, limits);
});
afterAll(async () => {
  published.close();
  await snapshots.close();
  await rm(outside, { recursive: true, force: true });
});

function rowsOf(from: Published, sql: string): Promise<unknown[]> {
  return from.jsonRows(sql);
}

describe.each([true, false])('several statements, with allowFiles %s', (allowFiles) => {
  it.each([
    'select 1; select 2',
    'from members; from members;',
    'explain select 1; select 2',
    'set variable x = 1; select 1; select 2; select 3',
  ])('are refused if one before the last has rows: %s', async (sql) => {
    const open = await openPublished(snapshots.layout, { ...limits, allowFiles });
    await expect(rowsOf(open, sql)).rejects.toMatchObject({
      code: 'sql_failed',
      kind: 'configuration',
      message: expect.stringMatching(/^statement \d of \d is a query too, and only the rows of the last are shown$/),
    });
    for (const empty of ['-- nothing', ';', ' '])
      await expect(rowsOf(open, empty)).rejects.toMatchObject({
        message: 'the SQL has no statement',
        kind: 'configuration',
      });
    expect(await rowsOf(open, 'create temp table one as select 1 as n; from one;')).toEqual([{ n: 1 }]);
    open.close();
  });
});

describe('a query of the published file', () => {
  it.each([
    'from members',
    'from members__changes',
    'from members__history',
    "from members_as_of('2030-01-01')",
    'from cdsync.freshness',
    'show tables',
    'describe members',
    'summarize members',
    'explain from members',
    "pragma table_info('members')",
    'with few as (from members limit 1) from few',
    'pivot members on n using count(*)',
    "set variable least = 2; select id from members where n >= getvariable('least')",
    'create temp table few as from members limit 1; from few',
    'select query from (select 2 as query)',
    "select enable_logging from (select 1 as enable_logging) where 'x' <> 'checkpoint'",
    'create temp macro twice(x) as x * 2; select twice(n) from members',
    "from json_each('[1, 2]')",
    "from query_table('members')",
    'select unnest([1, 2]), uuid(), random(), histogram(n) from members',
    'from duckdb_columns()',
    "select strftime(timestamptz '2026-11-01 00:00:00+00', '%Y')",
  ])('runs %s', async (sql) => {
    expect(await rowsOf(published, sql)).not.toHaveLength(0);
  });

  const attempts = (): string[] => [
    `from '${secret}'`,
    `from read_csv('${secret}')`,
    `select content from read_text('${secret}')`,
    `from read_blob('${secret}')`,
    `from read_json('${secret}')`,
    `from read_parquet('${secret}')`,
    `from parquet_metadata('${secret}')`,
    `from sniff_csv('${secret}')`,
    `from glob('${outside}/*')`,
    `from query('from read_text(''${secret}'')')`,
    `create temp table taken as from read_text('${secret}'); from taken`,
    "from read_csv('http://127.0.0.1:9/members.csv')",
    `attach '${outside}/new.duckdb' as other`,
    "attach ':memory:' as other",
    `attach '${snapshots.layout.store}' as other`,
    `copy members to '${outside}/members.csv'`,
    `copy (select 1) to '${outside}/one.parquet'`,
    `select 1; copy members to '${outside}/members.csv'; select 2`,
    `create temp table taken (word varchar); copy taken from '${secret}'`,
    `export database '${outside}/all'`,
    `import database '${outside}'`,
    `pragma import_database('${outside}')`,
    'install httpfs',
    'load httpfs',
    `load '${outside}/own.duckdb_extension'`,
    'set enable_external_access = true',
    'reset enable_external_access',
    'set lock_configuration = false',
    "set memory_limit = '100GB'",
    `set temp_directory = '${outside}'`,
    `set home_directory = '${outside}'`,
    `pragma profiling_output = '${outside}/profile.json'`,
    'pragma enable_profiling',
    `call enable_logging(storage = 'file', storage_path = '${outside}/log')`,
    "from enable_logging(storage = 'stdout')",
    `from enable_logging(storage = 'file', storage_config = {'path': '${outside}'})`,
    'from "enable_logging"()',
    'from Enable_Logging /* a comment /* in a comment */ */ ()',
    'from enable_logging -- a comment\n ()',
    'from enable_logging\u00a0()',
    'from main.enable_logging()',
    'from U&"\\0065nable_logging"()',
    'with x as materialized (from enable_logging()) from x',
    'create temp macro m() as table from enable_logging(); from m()',
    'set variable x = (select count(*) from enable_logging())',
    'explain analyze from enable_logging()',
    'from enable_profiling()',
    'from checkpoint()',
    'from force_checkpoint()',
    'from truncate_duckdb_logs()',
    "select write_log('x')",
    'select setseed(0.5)',
    'select sleep_ms(1)',
    "from query('from enable_logging()')",
    "from json_execute_serialized_sql(json_serialize_sql('from enable_logging()'))",
    "pragma json_execute_serialized_sql('{}')",
    'from arrow_scan(1::pointer, 2::pointer, 3::pointer)',
    'from arrow_scan_dumb(1, 2, 3)',
    "from seq_scan('members')",
    `from read_duckdb('${outside}/x.duckdb')`,
    "from which_secret('s3://x', 's3')",
    "insert into members (id) values ('p3')",
    'update members set n = 0',
    'delete from members',
    'drop table members',
    'alter table members add column m integer',
    'truncate members',
    'begin',
    'vacuum',
    'checkpoint',
    'update extensions',
    'prepare later as select 1',
  ];
  test('can neither open another file, nor change a setting, nor write', async () => {
    const before = [await readdir(outside), await readFile(secret, 'utf8')];
    for (const sql of attempts()) {
      const outcome = await rowsOf(published, sql).catch((error: unknown) => error);
      expect(outcome, sql).toMatchObject({ code: 'sql_not_allowed', kind: 'configuration' });
      expect((outcome as { hint: string }).hint, sql).toContain('--allow-files');
    }
    expect([await readdir(outside), await readFile(secret, 'utf8')]).toEqual(before);
    expect(await rowsOf(published, 'from members')).toHaveLength(2);
  });

  test('creates nothing in the published file', async () => {
    await expect(published.rows('create table kept as select 1')).rejects.toMatchObject({ code: 'sql_not_allowed' });
    await expect(published.rows('create or replace view members__history as select 1')).rejects.toMatchObject({
      code: 'sql_not_allowed',
    });
  });

  test('does not see the environment', async () => {
    await expect(published.rows("select getenv('PATH')")).rejects.toMatchObject({ code: 'sql_failed' });
  });

  test('reports an error in the SQL itself as such', async () => {
    await expect(published.rows('selec 1')).rejects.toMatchObject({ code: 'sql_failed' });
    await expect(published.rows('select wrong from members')).rejects.toMatchObject({ code: 'sql_failed' });
    await expect(published.rows('-- nothing')).rejects.toMatchObject({ code: 'sql_failed' });
  });
});

test('a query that is interrupted before it has begun ends, too', async () => {
  const open = await openPublished(snapshots.layout, limits);
  const rows = rowsOf(open, 'select count(*) from range(1000000000000)');
  open.interrupt();
  await expect(rows).rejects.toMatchObject({ code: 'interrupted' });
  open.close();
});

describe('a query that does not fit in memory', () => {
  const small = { memoryMb: 64, threads: 1 };
  const sorted = `select count(*)::int as n, max(place)::int as last from (
    select row_number() over (order by h) as place from (select hash(range)::varchar as h from range(2000000)))`;

  test('continues in its own folder, and leaves nothing there', async () => {
    const both = await Promise.all([1, 2].map(() => openPublished(snapshots.layout, small)));
    const names = new Set<string>();
    const look = setInterval(async () => {
      for (const name of await readdir(snapshots.layout.queries)) names.add(name);
    }, 5);
    try {
      for (const rows of await Promise.all(both.map((each) => rowsOf(each, sorted))))
        expect(rows).toEqual([{ n: 2_000_000, last: 2_000_000 }]);
    } finally {
      clearInterval(look);
      for (const each of both) each.close();
    }
    expect(names.size).toBe(2);
    expect(await readdir(snapshots.layout.queries)).toEqual([]);
    expect(await readdir(dirname(await realpath(snapshots.layout.link)))).toEqual(['job.duckdb']);
  });

  test('says so where it may not write', async () => {
    await rm(snapshots.layout.queries, { recursive: true });
    await writeFile(snapshots.layout.queries, '');
    const closed = await openPublished(snapshots.layout, small);
    await expect(rowsOf(closed, sorted)).rejects.toMatchObject({ code: 'memory_exceeded' });
    closed.close();
    await rm(snapshots.layout.queries);
  });

  test('leaves its folder if it is killed; the next run removes it once nothing has changed there for an hour', async () => {
    const { queries } = snapshots.layout;
    for (const name of ['killed', 'running']) {
      await mkdir(join(queries, name), { recursive: true });
      await writeFile(join(queries, name, 'block'), 'x');
    }
    const old = new Date(Date.now() - 3_700_000);
    for (const path of ['killed/block', 'killed', 'running']) await utimes(join(queries, path), old, old);
    await sweepStorage(snapshots.layout);
    expect(await readdir(queries)).toEqual(['running']);
  });
});

test('with files allowed, a query reads and writes them, and the published tables stay read-only', async () => {
  const free = await openPublished(snapshots.layout, { ...limits, allowFiles: true });
  try {
    expect(await rowsOf(free, `from '${secret}'`)).toEqual([{ word: 'plugh' }]);
    await free.rows(`copy members to '${outside}/copied.csv'`);
    expect(await readFile(join(outside, 'copied.csv'), 'utf8')).toContain('p2');
    await expect(free.rows('delete from members')).rejects.toMatchObject({ code: 'sql_failed' });
  } finally {
    free.close();
  }
});

test('a link that leads out of the folder of the job is not opened', async () => {
  const { link } = snapshots.layout;
  await rename(link, `${link}.kept`);
  await symlink(join(outside, 'secret.csv'), link);
  try {
    await expect(openPublished(snapshots.layout, limits)).rejects.toMatchObject({ code: 'storage_link' });
  } finally {
    await rename(`${link}.kept`, link);
  }
});

test.runIf(process.geteuid?.() === 0)('a user who may not read the file gets an error that says so', async () => {
  process.seteuid?.(65534);
  try {
    await expect(openPublished(snapshots.layout, limits)).rejects.toMatchObject({
      code: 'storage_permission',
      message: expect.stringMatching(/^no permission to read .*job\.duckdb$/),
      hint: expect.stringContaining('publish.mode'),
    });
  } finally {
    process.seteuid?.(0);
  }
});

describe('a value that one call would build', () => {
  it.each([
    "select repeat('x', 4000000000)",
    "select length(repeat('x', 100000000)) from range(50)",
    "select repeat(['x'], 1000000000)",
    "select repeat('x', 20000000 + n) from members",
    "select lpad('x', 2000000000, 'y')",
    "select rpad(id, 2000000000, 'y') from members",
  ])('is refused before it takes memory: %s', async (sql) => {
    const before = process.memoryUsage.rss();
    for (const allowFiles of [false, true]) {
      const open = await openPublished(snapshots.layout, { ...limits, allowFiles });
      await expect(rowsOf(open, sql)).rejects.toMatchObject({
        code: 'sql_failed',
        message: expect.stringContaining('10,000,000 at most'),
      });
      open.close();
    }
    expect(process.memoryUsage.rss() - before).toBeLessThan(100_000_000);
  });

  it('is as DuckDB builds it otherwise', async () => {
    const sql = `select repeat('ab', 2) as a, repeat([n], 2) as b, repeat('ab'::blob, 2)::varchar as c, lpad('7', 3, '0') as d,
      rpad('7', 3, '0') as e, repeat(null, 2) as f, repeat('ab', n - 1) as g from members where n = 1`;
    expect(await rowsOf(published, sql)).toEqual([
      { a: 'abab', b: ['1', '1'], c: 'abab', d: '007', e: '700', f: null, g: '' },
    ]);
    expect(await rowsOf(published, "from repeat('x', 2)")).toHaveLength(2);
  });
});

it('a query that takes far too much memory ends before DuckDB does', async () => {
  // Less than any process takes.
  const open = await openPublished(snapshots.layout, { ...limits, processMb: -1000 });
  const endless = 'select count(*) from range(100000000) a, range(100000000) b';
  const rows = open.rows(endless).then(async ({ chunks }) => {
    for await (const _ of chunks()) expect.unreachable();
  });
  await expect(rows).rejects.toMatchObject({ code: 'memory_exceeded' });
  expect(open.isStuck()).toBe(true);
  open.close();
});

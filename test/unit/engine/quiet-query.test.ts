import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ColumnRules } from '../../../src/columns/column-rules.js';
import type { StreamConfig } from '../../../src/config/config.js';
import { fileText } from '../../../src/core/sql.js';
import { QueryReader } from '../../../src/engine/run/query-reader.js';
import { streamSource } from '../../../src/sources/declaration.js';
import { sql } from '../../../src/sources/sql.js';
import { Database, type Session } from '../../../src/storage/duckdb.js';

let database: Database;
let session: Session;
beforeAll(async () => {
  database = await Database.open({ memoryMb: 512, threads: 4 });
  session = await database.connect();
  // Values of very different size: their sum in floating point is another in nearly each order.
  await session.run(`CREATE TEMP TABLE original AS SELECT 'p' || i AS id, 'c' || (i * 7 % 13) AS country,
    CASE WHEN i % 97 = 0 THEN NULL ELSE pow(10, i % 17 - 4) * (1 + i % 1001) / 3 END AS ltv, i % 5 AS tier FROM range(12000) AS t(i)`);
});
afterAll(() => {
  session.close();
  database.close();
});

/** Makes the same rows visible in another physical order, cut into other files. */
async function shuffle(seed: number): Promise<void> {
  await session.run(`CREATE OR REPLACE TEMP TABLE shuffled AS FROM original ORDER BY hash(id || '${seed}')`);
  await session.run(
    'CREATE OR REPLACE TEMP VIEW members AS FROM shuffled WHERE tier < 2 UNION ALL FROM shuffled WHERE tier >= 2',
  );
  await session.run(`CREATE OR REPLACE TEMP VIEW vip AS FROM shuffled WHERE hash(id || '${seed}') % 2 = 0 AND tier = 1
    UNION ALL FROM shuffled WHERE hash(id || '${seed}') % 2 = 1 AND tier = 1`);
}

async function rowsOf(query: string, keys: string | string[], inputs = ['members', 'vip']): Promise<string[]> {
  const key = [keys].flat();
  const folder = await mkdtemp(join(tmpdir(), 'cdsync-quiet-'));
  const reads = streamSource(sql, { query, key });
  const reader = new QueryReader({
    config: { name: 'q', reads } as unknown as StreamConfig,
    session,
    folder,
    compression: 'snappy',
    columns: undefined,
    rules: new ColumnRules(new Map()),
    monotonic: () => 0,
    inputs: new Map(inputs.map((name) => [name, { key: ['id'], version: 'run-1' }])),
    fingerprint: 'f',
    previous: undefined,
    oneThread: (work) => database.use('writing files', {}, work),
  });
  await reader.read();
  const { parts } = await reader.extracted();
  const rows = await session.rows(
    `SELECT to_json(r)::VARCHAR AS row FROM read_parquet(${fileText(parts[0]?.path ?? '')}) AS r ORDER BY ${key.join()}`,
  );
  return rows.map(({ row }) => String(row));
}

const queries: readonly (readonly [query: string, key: string])[] = [
  [
    'select country, sum(ltv) as total, avg(ltv) as mean, stddev(ltv) as spread, fsum(ltv) as f from members group by 1',
    'country',
  ],
  [
    "select country, string_agg(id, ',') as ids, list(tier) as tiers, first(id) as one, any_value(ltv) as some, last(id) as l from members group by 1",
    'country',
  ],
  ['select id, row_number() over () as n, sum(ltv) over (partition by country) as s from members', 'id'],
  ['select id, ltv from members limit 2000', 'id'],
  ['select distinct on (country) country, id, ltv from members', 'country'],
  [
    'select m.country, sum(m.ltv * v.tier) as total, list(v.id) as ids from members m join vip v using (id) group by 1',
    'country',
  ],
  [
    'with members as (select country, ltv from members where tier > 1) select country, sum(ltv) as s from members group by 1',
    'country',
  ],
  [
    'select tier, arg_max(id, tier) as a, mode(country) as m, quantile_cont(ltv, 0.3) as q, max_by(id, country) as b from members group by 1',
    'tier',
  ],
  ["select 'all' as k, sum(ltv) as total, corr(ltv, tier) as c, histogram(country) as h from members", 'k'],
];

describe('a query over the same rows', () => {
  it.each(queries)('gives the same rows in any order and with any number of threads: %s', async (query, key) => {
    await shuffle(0);
    const first = await rowsOf(query, key);
    expect(first.length).toBeGreaterThan(0);
    for (const [index, threads] of [4, 3, 2, 1].entries()) {
      await session.run(`SET threads = ${threads}`);
      await shuffle(index + 1);
      expect(await rowsOf(query, key)).toEqual(first);
    }
    await session.run('SET threads = 4');
  });

  it('changes only the groups whose rows have changed', async () => {
    const [query, key] = queries[0] as (typeof queries)[0];
    await shuffle(0);
    const before = await rowsOf(query, key);
    await session.run("UPDATE original SET ltv = ltv + 1 WHERE id = 'p1'");
    await session.run("INSERT INTO original VALUES ('a-first', 'c7', 0.1, 1)");
    await shuffle(9);
    const after = await rowsOf(query, key);
    expect(after.filter((row) => !before.includes(row)).map((row) => JSON.parse(row).country)).toEqual(['c7']);
  });
});

describe('the key of a query', () => {
  it.each([
    ['the key', 'select * from (values (1), (NULL)) as t(a)', ['a']],
    ['its first part', "select * from (values (1, 'x'), (NULL, 'y')) as t(a, b)", ['a', 'b']],
    ['its last part', "select * from (values (1, 'x'), (2, NULL)) as t(a, b)", ['a', 'b']],
    ['all its parts', 'select * from (values (1, 2), (NULL, NULL)) as t(a, b)', ['a', 'b']],
  ])('may not be NULL: %s', async (_, query, key) => {
    await expect(rowsOf(query, key, [])).rejects.toMatchObject({
      code: 'key_missing',
      message: `the query has 1 row without ${key.join(', ')}`,
    });
  });

  it('may be empty text in a part', async () => {
    expect(await rowsOf("select '' as a, 1 as b", ['a', 'b'], [])).toEqual(['{"a":"","b":1}']);
  });
});

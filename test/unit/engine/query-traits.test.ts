import { describe, expect, it } from 'vitest';
import { queryTraits, varyingWarning } from '../../../src/engine/run/query-traits.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();
const traits = (query: string) => queryTraits(session, { name: 'q', query }, ['members', 'vip']);

describe('a query whose rows depend on the order of its input', () => {
  it.each([
    'select country, sum(ltv) from members group by 1',
    'select country, AVG(ltv) from members group by 1',
    'select string_agg(id) from members',
    'select list(id) from members',
    'select first(id), any_value(id) from members',
    'select id, row_number() over () as n from members',
    'select id, sum(ltv) over (partition by country) as s from members',
    'select id from members limit 10',
    'select id from members limit 10%',
    'select distinct on (country) country, id from members',
    'select id from (select (select stddev(ltv) from vip) as id from members)',
    'with a as (select sum(ltv) as s from members) select * from a',
    'from members positional join vip',
    'select id from members using sample 3 (reservoir, 7)',
  ])('is known: %s', async (query) => {
    expect(await traits(query)).toMatchObject({ dependsOnOrder: true, varying: [] });
  });

  it.each([
    'select id, ltv * 1.1 as more from members where country = upper(tier)',
    'select country, count(*) as n, count(distinct id) as ids, min(ltv) as low, max(ltv) as high from members group by all',
    'select m.id from members m left join vip using (id)',
    'select distinct country from members union select id from vip',
    'select id, rank() over (order by ltv) as place from members',
    'select id from members order by id',
  ])('is not seen where there is none: %s', async (query) => {
    expect(await traits(query)).toMatchObject({ dependsOnOrder: false, varying: [], readsOthers: false });
  });
});

describe('a query whose rows change by themselves', () => {
  it.each([
    ['select id, random() as r from members', ['random()']],
    ['select id, uuid() as u, gen_random_uuid() as g from members', ['gen_random_uuid()', 'uuid()']],
    ["select id from members where seen > now() - interval '1 day'", ['now()']],
    ['select id, current_date as d from members where born < CURRENT_TIMESTAMP', ['current_date', 'current_timestamp']],
    ['select id, age(born) as years from members', ['age()']],
    ['select today() as d', ['today()']],
    ['select id from members where exists (select uuidv7() from vip)', ['uuidv7()']],
    ['select id from members tablesample 10%', ['a sample without REPEATABLE']],
    ['select id from members using sample 5', ['a sample without REPEATABLE']],
  ])('is reported: %s', async (query, varying) => {
    const known = await traits(query);
    expect(known.varying).toEqual(varying);
    expect(varyingWarning('vip', known)).toContain(
      `stream vip: its query has ${varying.join(', ')}, so its rows may change`,
    );
  });

  it('is not suspected for a text, an error or an age between two times', async () => {
    const known = await traits("select id, 'now()' as t, age(seen, born) as a, error('bad') as e from members");
    expect(known.varying).toEqual([]);
    expect(varyingWarning('vip', known)).toBeUndefined();
  });
});

describe('a query that reads more than streams', () => {
  it.each([
    ["from read_csv('keys.csv')", true],
    ["select id from members join 'keys.parquet' using (id)", true],
    ['from duckdb_settings()', true],
    ['from information_schema.tables', true],
    ['from absent', true],
    ['from Members join vip using (id)', false],
    ['from members, unnest([1, 2]) as t(x), range(3) as r(n)', false],
    ['with a as (from vip) select * from a', false],
  ])('is known: %s', async (query, readsOthers) => {
    expect((await traits(query)).readsOthers).toBe(readsOthers);
  });
});

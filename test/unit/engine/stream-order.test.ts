import { describe, expect, it } from 'vitest';
import type { StreamConfig } from '../../../src/config/config.js';
import {
  assertKnownTables,
  assertNoCircle,
  orderStreams,
  referencedTables,
} from '../../../src/engine/run/stream-order.js';
import { type SourceDeclaration, streamSource } from '../../../src/sources/declaration.js';
import { profiles } from '../../../src/sources/profiles.js';
import { segments } from '../../../src/sources/segments.js';
import { sql as sqlSource } from '../../../src/sources/sql.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession(256);

const stream = (name: string, source: SourceDeclaration, options: object = {}) =>
  ({ name, source: source.name, ...options, reads: streamSource(source, { ...options }) }) as unknown as StreamConfig;
const sql = (name: string, query: string) => stream(name, sqlSource, { query, key: ['id'] });
const list = (name: string) => stream(name, segments);

async function levels(...configs: StreamConfig[]): Promise<string[][]> {
  const ordered = await orderStreams(session, configs, configs);
  return ordered.map((level) => level.map(({ config }) => config.name));
}

describe('a query that reads a table which no one gives', () => {
  const refused = (query: string) => assertKnownTables(session, { name: 'q', query }, ['members', 'vip', 'q']);

  it('is refused, with the stream that is meant, or all of them', async () => {
    await expect(refused('select * from member')).rejects.toMatchObject({
      code: 'sql_failed',
      message: 'the query of stream "q" reads "member", which is not a stream of the job',
      hint: 'did you mean "members"?',
    });
    await expect(refused('select id from vip join absent using (id)')).rejects.toMatchObject({
      hint: 'its other streams: members, vip',
    });
  });

  it.each([
    'select * from Members join vip using (id)',
    'with m as (select * from members) select * from m where id in (with v as (from vip) select id from v)',
    "select * from 'keys.csv'",
    "from read_parquet('no/such.parquet')",
    'from duckdb_settings()',
    'from information_schema.tables',
    'from range(3) t(id)',
    'select unnest(tags) as tag from members, lateral (select 1 as one) x',
  ])('and %s is not', async (query) => {
    await expect(refused(query)).resolves.toBeUndefined();
  });
});

describe('the tables of a query', () => {
  it.each([
    ['select * from a join B using (id)', ['a', 'b']],
    ['with x as (select * from a) select * from x where id in (select id from c)', ['a', 'c', 'x']],
    ["from read_csv('x.csv') union all select * from a", ['a']],
    ['select (select max(n) from a) from other.b', ['a']],
    ['from a', ['a']],
  ])('of %s are %j', async (query, tables) => {
    expect([...(await referencedTables(session, 's', query))].sort()).toEqual(tables);
  });

  it.each(['drop table a', 'select 1; select 2', 'selec 1', "attach 'x'"])('are not asked of %s', async (query) => {
    await expect(referencedTables(session, 's', query)).rejects.toMatchObject({
      code: 'sql_failed',
      kind: 'configuration',
    });
  });
});

describe('the order of streams', () => {
  it('has each after those that it needs', async () => {
    const keyed = stream('d', profiles, { index: 'i', ids: { sql: 'select id from c' } });
    expect(await levels(sql('c', 'from a join b using (id)'), keyed, list('a'), list('b'), sql('e', 'from a'))).toEqual(
      [['a', 'b'], ['c', 'e'], ['d']],
    );
  });

  it('is none where they need each other', async () => {
    await expect(levels(sql('a', 'from b'), sql('b', 'from a'))).rejects.toMatchObject({ code: 'stream_circle' });
    await expect(levels(sql('a', 'from a'))).rejects.toMatchObject({ code: 'stream_circle' });
  });
});

it('check finds a query that needs itself, and blames no other stream', async () => {
  const all = [
    list('members'),
    sql('a', 'from b'),
    sql('b', 'from c join members using (id)'),
    sql('c', 'from a'),
    sql('d', 'from a'),
  ];
  for (const name of ['a', 'b', 'c'])
    await expect(assertNoCircle(session, name, all)).rejects.toMatchObject({
      code: 'stream_circle',
      message: 'the streams a, b, c need each other',
    });
  await expect(assertNoCircle(session, 'd', all)).resolves.toBeUndefined();
  const wrong = assertNoCircle(session, 'a', [...all, sql('e', 'no select')]);
  await expect(wrong).rejects.toMatchObject({ code: 'stream_circle' });
});

import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { databaseError, ownQueryError, queryError } from '../../../../src/sdk/duckdb/errors.js';

let instance: DuckDBInstance;
beforeAll(async () => {
  instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  await connection.run("create table members as select 'secret 4711' as name, 2147483648 as points, '{secret' as doc");
  connection.closeSync();
});
afterAll(() => instance.closeSync());

async function errorOf(sql: string, showsValues = false) {
  const connection = await instance.connect();
  try {
    await (await connection.stream(sql)).getRowObjects();
  } catch (error) {
    return ownQueryError(error, sql, showsValues);
  } finally {
    connection.closeSync();
  }
  throw new Error('the query ran');
}

test.each([
  ['selec 1', 'Parser Error: syntax error at or near "selec"', 'LINE 1: selec 1\n        ^'],
  ['from membrs', 'Did you mean "members"?', 'LINE 1: from membrs\n             ^'],
  [
    "select nam from members where name = 'own'",
    'Candidate bindings',
    "LINE 1: select nam from members where name = 'own'",
  ],
  ["select date '2024-02-30'", '2024-02-30', undefined],
  ["select 'abc'::int", "'abc'", 'LINE 1'],
])('%s is reported in the words of DuckDB, with the place in the query', async (sql, says, line) => {
  const { message, hint, code, kind } = await errorOf(sql);
  expect([code, kind]).toEqual(['sql_failed', 'configuration']);
  expect(message).toContain(says);
  if (line !== undefined) expect(hint).toContain(line);
  expect(hint).toContain('show tables');
});

test('a caret stays below its place when the query has tabs', async () => {
  expect((await errorOf('select\t1\tas a, nothing\tfrom members')).hint).not.toContain('\t');
});

test.each([
  'select name::int from members',
  "select name::int from members where name <> 'x'",
  'select points::int from members',
  'select doc::json from members',
  'select points::int * 1000000000::int from members',
  "select error(name) from members where 'secret' <> ''",
])('%s does not show the stored value, unless values are asked for', async (sql) => {
  const hidden = await errorOf(sql);
  expect(`${hidden.message} ${hidden.hint}`).not.toMatch(/secret 4711|2147483648|\{secret/);
  expect(hidden.message).toContain('--show-values');
  expect((await errorOf(sql, true)).message).toMatch(/secret|2147483648/);
});

test.each([
  ['/data/daily/.cdsync/runs/1/streams/s/parts/00001.parquet', 'storage_permission'],
  ['/data/own.csv', 'sql_failed'],
])('a file that cannot be opened is a fault of the query unless it is of cdsync: %s', (path, code) => {
  const error = new Error(`IO Error: Cannot open file "${path}": Permission denied`);
  expect(queryError(error, 'hint').code).toBe(code);
  expect(queryError(databaseError(error), 'hint').code).toBe(code);
});

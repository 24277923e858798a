import { expect, it } from 'vitest';
import { jsonValueSql, parseColumnType } from '../../../src/sdk/index.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

it.each<[type: string, value: string, json: unknown]>([
  ['DOUBLE', "'nan'", null],
  ['DOUBLE', '1.5', 1.5],
  ['DECIMAL(18,18)', '-0.5', -0.5],
  ['DECIMAL(38,38)', '0.25', 0.25],
  ['DECIMAL(18,2)', '0.25', 0.25],
  ['DECIMAL(18,18)[]', '[0.5, NULL, -0.5]', [0.5, null, -0.5]],
  ['DECIMAL(20,20)[][]', '[[0.5], NULL, []]', [[0.5], null, []]],
  ['DOUBLE[]', "['inf', '-inf', 'nan', '2']", [null, null, null, 2]],
  ['STRUCT("a ""b"" \'c" DECIMAL(38,38), t VARCHAR)', "ROW(0.5, ':.5')", { 'a "b" \'c': 0.5, t: ':.5' }],
  ['STRUCT(a DOUBLE)', 'NULL', null],
  ['STRUCT(l STRUCT(x DECIMAL(19,19))[], n BIGINT)[]', 'NULL', null],
  ['STRUCT(l STRUCT(x DECIMAL(19,19))[], n BIGINT)[]', '[ROW([ROW(0.5)], 7)]', [{ l: [{ x: 0.5 }], n: 7 }]],
  ['VARCHAR', "'.5'", '.5'],
])('a value of %s is written as JSON: %s', async (type, value, json) => {
  const sql = `SELECT to_json(${jsonValueSql('v', parseColumnType(type))})::VARCHAR AS json FROM (SELECT (${value})::${type} AS v)`;
  const [row] = await session.rows(sql);
  expect(JSON.parse(String(row?.json ?? 'null'))).toEqual(json);
});

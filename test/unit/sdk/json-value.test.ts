import { expect, it } from 'vitest';
import { jsonText, objectText, parseColumnType } from '../../../src/sdk/index.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

it.each<[type: string, value: string, json: string | null]>([
  ['DOUBLE', "'nan'", null],
  ['DOUBLE', '1.5', '1.5'],
  ['DECIMAL(18,18)', '-0.5', '-0.500000000000000000'],
  ['DECIMAL(38,38)', '0.25', `0.25${'0'.repeat(36)}`],
  ['DECIMAL(18,2)', '0.25', '0.25'],
  ['DECIMAL(18,18)[]', '[0.5, NULL]', '[0.500000000000000000,null]'],
  ['DECIMAL(20,20)[][]', '[[0.5], NULL, []]', `[[0.5${'0'.repeat(19)}],null,[]]`],
  ['DOUBLE[]', "['inf', '-inf', 'nan', '2']", '[null,null,null,2.0]'],
  ['STRUCT("a ""b"" \'c" DECIMAL(3,3), t VARCHAR)', "ROW(0.5, ':.5')", '{"a \\"b\\" \'c":0.500,"t":":.5"}'],
  ['STRUCT(a DOUBLE)', 'NULL', null],
  ['STRUCT(l STRUCT(x DECIMAL(19,19))[], n BIGINT)[]', 'NULL', null],
  ['STRUCT(l STRUCT(x DECIMAL(3,3))[], n BIGINT)[]', '[ROW([ROW(0.5)], 7)]', '[{"l":[{"x":0.500}],"n":7}]'],
  ['VARCHAR', "'.5'", '".5"'],
  ['JSON', "'1234567890.12345678901234567890'", '1234567890.12345678901234567890'],
  ['JSON[]', `['1.50', '{"a": 1E2}', NULL, 'null']`, '[1.50,{"a":1E2},null,null]'],
  ['STRUCT(j JSON, k JSON[])', `ROW('0.10000000000000000000', ['1e400'])`, '{"j":0.10000000000000000000,"k":[1e400]}'],
  ['JSON', `'[1,\n"a  b"]'`, '[1, "a  b"]'],
  ['STRUCT(j JSON)[]', `[ROW('[1,\n\t2 , "a \\" : b"]')]`, '[{"j":[1,2,"a \\" : b"]}]'],
])('a value of %s is written as JSON, digit for digit: %s', async (type, value, json) => {
  const column = { name: 'v', value: 'v', type: parseColumnType(type) };
  const [row] = await session.rows(
    `SELECT ${jsonText('v', column.type)} AS json, ${objectText([column])} AS object FROM (SELECT (${value})::${type} AS v)`,
  );
  expect(row).toEqual({ json, object: `{"v":${json ?? 'null'}}` });
});

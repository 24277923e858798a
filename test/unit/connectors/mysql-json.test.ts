import { expect, it } from 'vitest';
import { inexactJson, mapColumnWithin } from '../../../connectors/mysql/types.js';
import { sqlText } from '../../../src/core/sql.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

it.each([
  ['{"a":{"b":[12345678901234567890.123456789]}}', true],
  ['{"a":18446744073709551616}', true],
  ['[0.1000000000000000055]', true],
  ['[123456789012345678.5]', true],
  ['[1,-9223372036854775808,18446744073709551615]', false],
  ['[0.30000000000000004,1e25,1.7976931348623157e308,100000000000000000000000,2.50000000000000000000]', false],
  ['{"12345678901234567890.123456789":"12345678901234567890.123456789"}', false],
  [String.raw`{"a":"x\"12345678901234567890.123456789"}`, false],
  [String.raw`{"a\\":12345678901234567890.123456789}`, true],
])('MySQL keeps other digits of a number in %s: %s', async (json, isInexact) => {
  const [refusal] = inexactJson('json');
  const [row] = await session.rows(`SELECT ${refusal?.when} AS inexact FROM (SELECT ${sqlText(json)} AS json)`);
  expect(row?.inexact).toBe(isInexact);
});

it('MariaDB, where JSON is text, keeps every number', () => {
  const others = (isMysql: boolean) => mapColumnWithin(1, isMysql)({ kind: 'json' }).limits?.others;
  expect([others(false), typeof others(true)]).toEqual([undefined, 'function']);
});

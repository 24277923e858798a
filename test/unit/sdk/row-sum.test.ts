import { createHash } from 'node:crypto';
import { expect, it } from 'vitest';
import { parseColumnType } from '../../../src/sdk/column-type.js';
import { canonicalText, duckdbHashing, rowNumber } from '../../../src/sdk/sql/row-sum.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

/** Values by type, and the texts by which both sides compare them, as computed by hand. */
const values: readonly [type: string, value: string, text: string][] = [
  ['BOOLEAN', 'true', 'true'],
  ['BIGINT', "'-9223372036854775808'", '-9223372036854775808'],
  ['HUGEINT', '9'.repeat(38), '9'.repeat(38)],
  ['DECIMAL(10,2)', '-0.50', '-0.50'],
  ['DOUBLE', '1.5', '3ff8000000000000'],
  ['DOUBLE', '-0.1', 'bfb999999999999a'],
  ['DOUBLE', "'-0.0'", '0000000000000000'],
  ['VARCHAR', '\'é "x"\'', 'é "x"'],
  ['DATE', "'2024-02-29'", '19782'],
  ['DATE', "'1969-12-31'", '-1'],
  ['DATE', "'infinity'", 'infinity'],
  ['TIMESTAMP WITH TIME ZONE', "'2024-02-29 10:00:00.000001+00'", '1709200800000001'],
  ['TIMESTAMP WITH TIME ZONE', "'-infinity'", '-infinity'],
  ['JSON', `'{"b":1,"a":[1.50,null]}'`, '{"b":1,"a":[1.50,null]}'],
  ['BIGINT[]', '[1, NULL]', '[1,null]'],
  ['STRUCT(b VARCHAR, a BOOLEAN)', "{'b': 'x', 'a': false}", '{"b":"x","a":false}'],
];

it.each(values)('a value of %s is compared by its text: %s', async (type, value, text) => {
  const [row] = await session.rows(
    `SELECT ${canonicalText('v', parseColumnType(type))} AS text FROM (SELECT ${value}::${type} AS v)`,
  );
  expect(row?.text).toBe(text);
});

const numberOf = (texts: readonly (string | null)[]) => {
  const hex = createHash('md5')
    .update(texts.map((text) => text ?? '\x1e').join('\x1f'))
    .digest('hex');
  return String(BigInt(`0x${hex.slice(0, 15)}`));
};

it('a row with a value of each type has one number, which no text moves that goes to the next column', async () => {
  const columns = values.map(([type, value], at) => `${value}::${type} AS v${at}`);
  const texts = values.map(([type], at) => canonicalText(`v${at}`, parseColumnType(type)));
  const sums = `SELECT ${duckdbHashing().sum(rowNumber(duckdbHashing(), texts))} AS sum FROM`;
  const [row] = await session.rows(`${sums} (SELECT ${columns.join(', ')})`);
  expect(row?.sum).toBe(numberOf(values.map(([, , text]) => text)));
  const pairs: (string | null)[][] = [
    ['ab', 'c'],
    ['a', 'bc'],
    ['abc', ''],
    ['abc', null],
    [null, 'abc'],
  ];
  const rows = await Promise.all(
    pairs.map(([a, b]) => {
      const [one, other] = [a, b].map((text) => (text == null ? 'NULL::VARCHAR' : `'${text}'`));
      return session.rows(
        `SELECT ${rowNumber(duckdbHashing(), ['a', 'b'])}::VARCHAR AS n FROM (SELECT ${one} AS a, ${other} AS b)`,
      );
    }),
  );
  expect(rows.flat().map(({ n }) => n)).toEqual(pairs.map(numberOf));
  expect(new Set(rows.flat().map(({ n }) => n)).size).toBe(pairs.length);
});

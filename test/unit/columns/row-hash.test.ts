import { describe, expect, it } from 'vitest';
import { hashedRows, isRowKey, rowHash, type TypedColumn, wideColumns } from '../../../src/columns/row-hash.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

async function hashOf(columns: readonly TypedColumn[], values: readonly string[]): Promise<string> {
  const row = columns.map(({ name, type }, index) => `(${values[index]})::${type} AS "${name}"`).join(', ');
  const [found] = await session.rows(`SELECT ${rowHash(columns)} AS hash FROM (SELECT ${row})`);
  return String(found?.hash);
}

const a = { name: 'a', type: 'BIGINT' };
const b = { name: 'b', type: 'VARCHAR' };

describe('the hash of a row', () => {
  it('is the same with a new column of NULL, of any type, and in any order', async () => {
    const plain = await hashOf([a, b], ['5', "'x'"]);
    expect(await hashOf([b, a], ["'x'", '5'])).toBe(plain);
    for (const type of [
      'VARCHAR',
      'DOUBLE',
      'HUGEINT',
      'JSON',
      'BIGINT[]',
      'STRUCT(x BIGINT)',
      'TIMESTAMP WITH TIME ZONE',
      'BOOLEAN',
    ]) {
      expect([type, await hashOf([a, { name: 'c', type }, b], ['5', 'NULL', "'x'"])]).toEqual([type, plain]);
    }
  });

  it.each([
    ['NULL and an empty list', 'BIGINT[]', 'NULL', '[]'],
    ['an empty list and a list of NULL', 'BIGINT[]', '[]', '[NULL]'],
    ['NULL and an empty list of times', 'TIMESTAMP[]', 'NULL', '[]'],
    ['an empty list of times and a list of NULL', 'TIMESTAMP WITH TIME ZONE[]', '[]', '[NULL]'],
    ['NULL and a struct of NULLs', 'STRUCT(x BIGINT)', 'NULL', "{'x': NULL}"],
    ['0.0 and -0.0', 'DOUBLE', '0.0', "'-0.0'"],
    ['NULL and an empty text', 'VARCHAR', 'NULL', "''"],
    ['NULL and false', 'BOOLEAN', 'NULL', 'false'],
  ])('has different hashes for %s', async (_, type, one, other) => {
    const column = [{ name: 'c', type }];
    expect(await hashOf(column, [one])).not.toBe(await hashOf(column, [other]));
  });

  it('is that of the text where DuckDB hashes a decimal of 128 bits', () => {
    expect(rowHash([{ name: 'c', type: 'DECIMAL(18,2)' }])).not.toContain('VARCHAR');
    expect(rowHash([{ name: 'c', type: 'DECIMAL(19,2)' }])).toContain('::VARCHAR');
  });

  /** Values that differ, by type: those of 128 bits differ in either half, or in both by the same bits. */
  const differing: Readonly<Record<string, readonly string[]>> = {
    HUGEINT: [
      '0',
      '1',
      '-1',
      '18446744073709551616',
      '18446744073709551617',
      '18446744073709551618',
      '36893488147419103233',
    ],
    UHUGEINT: ['0', '18446744073709551617', '18446744073709551618', '36893488147419103233'],
    'DECIMAL(38,0)': ['0', '18446744073709551617', '18446744073709551618', '36893488147419103233'],
    'DECIMAL(38,2)': ['0', '0.01', '-0.01', '184467440737095516.17', '184467440737095516.18', '368934881474191032.33'],
    'DECIMAL(18,2)': ['0', '0.01', '-0.01', '1.00', '9999999999999999.99'],
    UUID: [
      "'00000000-0000-0001-0000-000000000001'",
      "'00000000-0000-0002-0000-000000000002'",
      "'80000000-0000-0000-0000-000000000000'",
      "'00000000-0000-0000-8000-000000000000'",
    ],
    INTERVAL: ["'1 month'", "'30 days'", "'720 hours'", "'0 days'"],
    FLOAT: ['0.0', "'-0.0'", '1.5'],
    'TIME WITH TIME ZONE': ["'10:00:00+00'", "'11:00:00+01'"],
    BIT: ["'1'", "'01'", "'001'"],
    'DOUBLE[]': ['[]', '[0.0]', "['-0.0']", '[NULL]', '[0.0, 0.0]'],
    'HUGEINT[]': ['[]', '[18446744073709551617]', '[18446744073709551618]', '[0]', '[36893488147419103233]'],
    'INTEGER[2]': ['[1, 2]', '[2, 1]', '[NULL, 1]', '[1, NULL]'],
    'STRUCT(x HUGEINT, y DOUBLE)': [
      "{'x': 0, 'y': 0.0}",
      "{'x': 18446744073709551617, 'y': 0.0}",
      "{'x': 0, 'y': '-0.0'}",
      "{'x': 0, 'y': NULL}",
      "{'x': NULL, 'y': 0.0}",
    ],
    'STRUCT(x UUID)[]': [
      "[{'x': '00000000-0000-0001-0000-000000000001'}]",
      "[{'x': '00000000-0000-0002-0000-000000000002'}]",
      '[NULL]',
      "[{'x': NULL}]",
    ],
    'JSON[]': ["['1234567890.12345678']", "['1234567890.123456789']", "['1.5']", "['1.50']", '[NULL]', "['null']"],
    'STRUCT("a" JSON)': ["{'a': '[0.1]'}", "{'a': '[0.10000000000000001]'}"],
    'MAP(VARCHAR, JSON)': ["MAP {'a': '1e2'::JSON}", "MAP {'a': '100'::JSON}"],
    'MAP(VARCHAR, BIGINT)': ['MAP {}', "MAP {'a': 1}", "MAP {'a': NULL}", "MAP {'b': 1}"],
    'UNION(a BIGINT, b VARCHAR)': ['union_value(a := 1)', "union_value(b := '1')"],
  };
  it.each(Object.entries(differing))('has different hashes for any two values of type %s', async (type, values) => {
    const hashes = new Map<string, string>();
    for (const value of ['NULL', ...values]) {
      const hash = await hashOf([{ name: 'c', type }], [value]);
      expect(hashes.get(hash), `${value} has the hash of another value`).toBeUndefined();
      hashes.set(hash, value);
    }
  });

  it('differs with the column that a value is in', async () => {
    const other = { name: 'c', type: 'VARCHAR' };
    expect(await hashOf([b, other], ["'x'", 'NULL'])).not.toBe(await hashOf([b, other], ['NULL', "'x'"]));
  });

  it.each(['VARCHAR', 'DOUBLE', 'BIGINT', 'BIGINT[]'])(
    'changes if two columns of type %s swap their values',
    async (type) => {
      const columns = [
        { name: 'b', type },
        { name: 'c', type },
      ];
      const [one, two] = type === 'BIGINT[]' ? ['[1]', '[2]'] : ["'1'", "'2'"];
      expect(await hashOf(columns, [one, two])).not.toBe(await hashOf(columns, [two, one]));
      expect(await hashOf(columns, [one, one])).not.toBe(await hashOf(columns, [two, two]));
    },
  );

  it('is the same for an integer in a table and in a file', async () => {
    expect(await hashOf([{ name: 'n', type: 'HUGEINT' }], ['12345678901234567890'])).toBe(
      await hashOf([{ name: 'n', type: 'DECIMAL(38,0)' }], ['12345678901234567890']),
    );
  });

  it('can be taken over hundreds of columns', async () => {
    const many = Array.from({ length: 600 }, (_, index) => ({ name: `c${index}`, type: 'VARCHAR' }));
    expect(
      await hashOf(
        many,
        many.map(() => 'NULL'),
      ),
    ).toBe('0');
  });
});

describe('the hashes of a table with many columns', () => {
  /** Type of the column, type of its values in a file, and a value for each row; some rows have a NULL too. */
  const kinds = [
    ['VARCHAR', 'VARCHAR', "'v' || r"],
    ['BIGINT', 'BIGINT', 'r * 7'],
    ['DOUBLE', 'DOUBLE', "CASE r % 3 WHEN 0 THEN 0.0::DOUBLE WHEN 1 THEN '-0.0'::DOUBLE ELSE r / 3 END"],
    ['HUGEINT', 'DECIMAL(38,0)', 'r * 3::HUGEINT'],
    ['JSON', 'JSON', "('[' || r || ']')::JSON"],
    ['BIGINT[]', 'BIGINT[]', '[r, NULL]'],
    ['STRUCT(x DOUBLE)', 'STRUCT(x DOUBLE)', "{'x': r / 7}"],
    ['TIMESTAMP WITH TIME ZONE', 'TIMESTAMP WITH TIME ZONE', "'2026-01-01'::TIMESTAMPTZ + to_hours(r::BIGINT)"],
    ['BOOLEAN', 'BOOLEAN', 'r % 2 = 0'],
  ] as const;

  it('are those of its rows, one by one', async () => {
    const columns = Array.from({ length: wideColumns + 150 }, (_, index) => {
      const [type, fileType, value] = kinds[index % kinds.length] as (typeof kinds)[number];
      const sql = `CASE WHEN (r + ${index}) % 5 = 0 THEN NULL ELSE ${value} END::${fileType} AS "it's ${index}"`;
      return { name: `it's ${index}`, type, untracked: index % 50 === 0, sql };
    });
    await session.run(
      `CREATE TEMP TABLE many AS SELECT r, ${columns.map(({ sql }) => sql).join(', ')} FROM range(20) AS t(r)`,
    );
    const wide = await session.rows(`SELECT id, hash FROM (${hashedRows('many', 'r', columns)}) ORDER BY id`);
    const expected = Array<bigint>(20).fill(0n);
    for (let from = 0; from < columns.length; from += 50) {
      const hashes = await session.rows(
        `SELECT ${rowHash(columns.slice(from, from + 50))} AS hash FROM many ORDER BY r`,
      );
      for (const [row, { hash }] of hashes.entries()) expected[row] = (expected[row] as bigint) ^ BigInt(String(hash));
    }
    expect(wide.map(({ hash }) => BigInt(String(hash)))).toEqual(expected);
  });
});

it.each<[string, readonly string[], boolean]>([
  ['p1', ['id'], true],
  ['["a","b"]', ['id'], true],
  ['["a","b"]', ['id', 'region'], true],
  ['["a"]', ['id', 'region'], false],
  ['["a","b","c"]', ['id', 'region'], false],
  ['{"length":2}', ['id', 'region'], false],
  ['p1', ['id', 'region'], false],
])('%s may be the key of a row with the key %s: %s', (text, key, expected) => {
  expect(isRowKey(text, key)).toBe(expected);
});

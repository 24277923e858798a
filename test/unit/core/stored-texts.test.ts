import { DuckDBInstance } from '@duckdb/node-api';
import { describe, expect, it } from 'vitest';
import { isTypeText, storedName, storedPath } from '../../../src/core/stored-texts.js';

describe('a type in a state file', () => {
  it('is any that DuckDB has, whatever is inside of it', async () => {
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    const rowsOf = async (sql: string) =>
      (await connection.runAndReadAll(sql)).getRows().map(([value]) => String(value));
    const names = await rowsOf(
      "SELECT DISTINCT type_name FROM duckdb_types() WHERE internal AND type_name NOT IN ('struct', 'row', 'list', 'map', 'union', 'enum', 'null', 'any', 'type')",
    );
    const nested = [
      'BIGINT[]',
      'BIGINT[3][]',
      'MAP(VARCHAR, STRUCT("select" UUID))',
      'UNION(num INTEGER, "str ing" VARCHAR)',
      'STRUCT("a" DATE, "DATE" DATE, "x""y, z) VARCHAR" DECIMAL(18,3)[], é STRUCT("(" TIMESTAMPTZ))',
      "ENUM('a', 'it''s, ) here')",
    ];
    const types: string[] = [];
    for (const name of [...names.map((text) => `"${text}"`), ...nested])
      types.push(...(await rowsOf(`SELECT column_type FROM (DESCRIBE SELECT NULL::${name})`).catch(() => [])));
    connection.closeSync();
    instance.closeSync();
    expect(types.length).toBeGreaterThan(40);
    expect(types.filter((text) => !isTypeText(text))).toEqual([]);
  });

  it.each([
    '',
    'x',
    '"x"',
    'VARCHAR AS a',
    'VARCHAR, (SELECT 1)',
    "VARCHAR) FROM read_text('x')",
    "VARCHAR FROM read_text('x') --",
    'VARCHAR; COPY (SELECT 1) TO x',
    'VARCHAR VARCHAR',
    'VARCHAR"x"',
    'VARCHAR--',
    'VARCHAR/**/',
    'STRUCT(a BIGINT) x',
    'STRUCT(a (SELECT 1))',
    'STRUCT(a BIGINT',
    'DECIMAL(1,2)(SELECT 1)',
    "ENUM('a' || getenv('HOME'))",
    'BIGINT[(SELECT 1)]',
    '\0',
    'T',
  ])('is not %j', (text) => {
    expect(isTypeText(text)).toBe(false);
  });
});

it('is not one of more levels than columns have', () => {
  const nested = (levels: number) => `${'STRUCT(a '.repeat(levels)}BIGINT${')'.repeat(levels)}`;
  expect([16, 1000, 100_000].map((levels) => isTypeText(nested(levels)))).toEqual([true, false, false]);
});

describe('a name or a path in a state file', () => {
  it('is one name, or stays below its folder', () => {
    const [names, paths] = [
      ['a', '.a', 'a..b', 'ä "b"', '...'],
      ['a/b', 'snapshot/r 1/00001.parquet'],
    ];
    for (const text of names) expect(storedName.safeParse(text).success).toBe(true);
    for (const text of [...names, ...paths]) expect(storedPath.safeParse(text).success).toBe(true);
    for (const text of ['', '.', '..', '/a', 'a/', 'a//b', '../a', 'a/../../b', 'a/./b', 'a\\b', 'a\0']) {
      expect(storedName.safeParse(text).success).toBe(false);
      expect(storedPath.safeParse(text).success).toBe(false);
    }
  });
});

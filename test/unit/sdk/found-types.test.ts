import fc from 'fast-check';
import { expect, it } from 'vitest';
import duckdb from '../../../connectors/duckdb/index.js';
import { isNarrower as isNarrowerMysql } from '../../../connectors/mysql/types.js';
import postgres from '../../../connectors/postgres/index.js';
import { quoteIdentifier } from '../../../src/core/sql.js';
import { declaredTypeOf } from '../../../src/delivery/table/found-type.js';
import { isSameDuckdbType, parseColumnType } from '../../../src/sdk/column-type.js';
import { isNarrower as isNarrowerPostgres } from '../../../src/sdk/postgres/types.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

const session = await duckdbSession();

const plain = ['VARCHAR', 'BIGINT', 'HUGEINT', 'DOUBLE', 'BOOLEAN', 'DATE', 'TIMESTAMP WITH TIME ZONE', 'JSON'];
const decimals = fc
  .tuple(fc.integer({ min: 1, max: 38 }), fc.nat(38))
  .filter(([precision, scale]) => scale <= precision && !(precision === 38 && scale === 0))
  .map(([precision, scale]) => `DECIMAL(${precision},${scale})`);
const names = fc.constantFrom('a', 'B', 'select', 'x y', 'q"q', 'p(1, 2)', 'é', 'BIGINT', 'deep.er', '1st', "it's");
const { type: types } = fc.letrec<{ type: string }>((tie) => ({
  type: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.oneof(fc.constantFrom(...plain), decimals),
    tie('type').map((type) => `${type}[]`),
    fc
      .uniqueArray(fc.tuple(names, tie('type')), {
        selector: ([name]) => name.toLowerCase(),
        minLength: 1,
        maxLength: 3,
      })
      .map((members) => `STRUCT(${members.map(([name, type]) => `${quoteIdentifier(name)} ${type}`).join(', ')})`),
  ),
}));

it('a column of any type is known again by the type that DuckDB describes', async () => {
  const property = fc.asyncProperty(types, types, async (type, other) => {
    const kind = parseColumnType(type);
    const mapped = duckdb.mapColumn(kind, { name: 'c', type: kind, duckdbType: type }).type;
    await session.run(`CREATE OR REPLACE TEMP TABLE probe (c ${mapped})`);
    const [row] = await session.rows("SELECT data_type AS type FROM duckdb_columns() WHERE table_name = 'probe'");
    const found = String(row?.type);
    expect(duckdb.isTypeOf?.(found, mapped)).toBe(true);
    expect(isSameDuckdbType(declaredTypeOf(duckdb, 'c', found) ?? '', type)).toBe(true);
    const isOther = JSON.stringify(parseColumnType(other)) !== JSON.stringify(kind);
    if (isOther) expect(duckdb.isTypeOf?.(found, other)).toBe(false);
  });
  await fc.assert(property, { numRuns: 200 });
});

it('a type that a person chose is known if the destination has it for one of the stream', () => {
  const declared = [
    'numeric(10,2)',
    'numeric',
    'bigint',
    'double precision',
    'text',
    'jsonb',
    'integer',
    'varchar(20)',
  ];
  expect(declared.map((found) => declaredTypeOf(postgres, 'c', found))).toEqual([
    ...['DECIMAL(10,2)', 'HUGEINT', 'BIGINT', 'DOUBLE', 'VARCHAR', 'JSON'],
    ...[undefined, undefined],
  ]);
});

it.each([
  ['postgres', isNarrowerPostgres, 'integer', 'bigint', true],
  ['postgres', isNarrowerPostgres, 'bigint', 'bigint', false],
  ['postgres', isNarrowerPostgres, 'numeric', 'bigint', false],
  ['postgres', isNarrowerPostgres, 'character varying(3)', 'text', true],
  ['postgres', isNarrowerPostgres, 'uuid', 'text', false],
  ['postgres', isNarrowerPostgres, 'numeric(5,2)', 'numeric(9,2)', true],
  ['postgres', isNarrowerPostgres, 'numeric(9,2)', 'numeric(9,2)', false],
  ['postgres', isNarrowerPostgres, 'integer', 'double precision', false],
  ['mysql', isNarrowerMysql, 'smallint(6)', 'bigint', true],
  ['mysql', isNarrowerMysql, 'int', 'bigint', true],
  ['mysql', isNarrowerMysql, 'bigint(20)', 'bigint', false],
  ['mysql', isNarrowerMysql, 'varchar(3) collate utf8mb4_nopad_bin', 'longtext', true],
  ['mysql', isNarrowerMysql, 'longtext collate utf8mb3_general_ci', 'longtext', true],
  ['mysql', isNarrowerMysql, 'longtext collate utf8mb4_nopad_bin', 'longtext', false],
  ['mysql', isNarrowerMysql, 'longtext collate utf8mb4_bin', 'json', false],
  ['mysql', isNarrowerMysql, 'decimal(5,2)', 'decimal(9,2)', true],
  ['mysql', isNarrowerMysql, 'decimal(9,2)', 'decimal(9,2)', false],
  ['mysql', isNarrowerMysql, 'int', 'double', false],
  ['mysql', isNarrowerMysql, 'bigint(20) unsigned', 'bigint', true],
  ['mysql', isNarrowerMysql, 'varbinary(30)', 'longtext', true],
  ['mysql', isNarrowerMysql, "enum('a','b') collate utf8mb4_general_ci", 'longtext', true],
  ['mysql', isNarrowerMysql, 'varchar(50) collate utf8mb4_general_ci', 'json', true],
  ['mysql', isNarrowerMysql, 'json', 'json', false],
] as const)(
  '%s: a column altered by a person is narrower, and its values are written alike: %o %s for %s: %s',
  (_, isNarrower, found, mapped, is) => {
    expect(isNarrower(found, mapped)).toBe(is);
  },
);

import { expect, it } from 'vitest';
import type { SqlDialect, TargetTable } from '../../../src/sdk/index.js';
import { erasedSql } from '../../../src/sdk/sql/statements.js';
import { duckdbSession } from '../../fixtures/duckdb-session.js';

it('an erased row is found by all columns of its key, not by one that others share', async () => {
  const dialect = {
    identifier: (name: string) => `"${name}"`,
    literal: (text: string) => `'${text.replaceAll("'", "''")}'`,
    canonical: (column: string) => `(${column})::VARCHAR`,
  } as unknown as SqlDialect;
  const columns = [
    { name: 'place', kind: { kind: 'text' } },
    { name: 'n', kind: { kind: 'integer' } },
  ];
  const table = { columns, key: ['place', 'n'] } as unknown as TargetTable;
  const [condition] = erasedSql(dialect, table, [
    ['a', '1'],
    ['b', '2'],
  ]);
  const session = await duckdbSession();
  const rows = await session.rows(
    `SELECT place || n AS id FROM (VALUES ('a', 1), ('a', 2), ('b', 1), ('b', 2), ('c', 3)) t(place, n) WHERE ${condition} ORDER BY 1`,
  );
  expect(rows.map(({ id }) => id)).toEqual(['a1', 'b2']);
});

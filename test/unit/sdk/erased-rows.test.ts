import { expect, it } from 'vitest';
import type { Load, SqlDialect, TargetTable } from '../../../src/sdk/index.js';
import { erasedSql, freeAlias, mergeSql, removesValues } from '../../../src/sdk/sql/statements.js';
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

it('a statement erases at most 200 keys, and there is none without a key', () => {
  const dialect = {
    identifier: (name: string) => name,
    literal: (text: string) => text,
    canonical: (column: string) => column,
  } as unknown as SqlDialect;
  const table = { columns: [{ name: 'id', kind: { kind: 'text' } }], key: ['id'] } as unknown as TargetTable;
  const keys = (count: number) => Array.from({ length: count }, (_, n) => [String(n)]);
  const each = (count: number) => erasedSql(dialect, table, keys(count)).map((sql) => sql.split(' OR ').length);
  expect([each(0), each(200), each(201)]).toEqual([[], [200], [200, 1]]);
});

it.each([
  [{ erase: [['a']] }, true],
  [{ clear: ['n'] }, true],
  [{ empty: ['n'], isReload: true }, true],
  [{ empty: ['n'] }, false],
  [{ isReload: true }, false],
  [{}, false],
])('a load removes values: %o: %s', (parts, is) => {
  expect(removesValues({ erase: [], clear: [], empty: [], isReload: false, ...parts } as unknown as Load)).toBe(is);
});

it('a merge updates only rows that differ if it has all rows, and changes no table that is only its key', () => {
  const dialect = { identifier: (name: string) => name } as unknown as SqlDialect;
  const of = (names: readonly string[], isReload: boolean) => {
    const columns = names.map((name) => ({ name, kind: { kind: 'text' } }));
    const task = {
      table: { columns, key: ['id'] },
      target: 'x',
      stage: 'y',
      t: 't',
      s: 's',
      write: { isReload },
      empty: [],
    };
    return mergeSql(dialect, task as unknown as Parameters<typeof mergeSql>[1]);
  };
  expect(of(['id', 'n'], false)).toContain('WHEN MATCHED THEN UPDATE SET n = s.n');
  expect(of(['id', 'n'], true)).toContain('WHEN MATCHED AND (t.n IS DISTINCT FROM s.n) THEN UPDATE SET n = s.n');
  expect(of(['id'], true)).not.toContain('UPDATE');
});

it('an alias is the wanted one, unless a column has its name', () => {
  expect([freeAlias('t', new Set(['s'])), freeAlias('t', new Set(['t', 't_']))]).toEqual(['t', 't__']);
});
